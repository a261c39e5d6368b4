"use strict";
// The summary, the findings and the records; and the start of all views.
(() => {
  const { data, element } = ckptspec;
  const { file } = data;

  data.findings.forEach((finding, at) => { finding.at = at; });

  // One finding: what, where, found, expected, the rule's sentence.
  views.finding = (finding, id) => {
    const end = finding.offset + Math.max(finding.length, 1) - 1;
    const place = finding.length <= 1 ? `byte ${shown.number(finding.offset)}` : `bytes ${shown.number(finding.offset)} to ${shown.number(end)}`;
    return element("article", { class: `card ${views.severity[finding.severity]}`, id: id || null, tabindex: id ? -1 : null },
      element("p", {},
        element("span", { class: `chip ${views.severity[finding.severity]}` }, finding.severity), " ",
        element("strong", {}, finding.rule), ` at ${place} (${shown.hex(finding.offset)})`,
        finding.path ? [", ", element("code", {}, finding.path)] : null),
      element("dl", {},
        element("dt", {}, "found"), element("dd", {}, finding.found),
        element("dt", {}, "expected"), element("dd", {}, finding.expected)),
      element("p", { class: "dim" }, finding.sentence),
      finding.hint ? element("p", {}, finding.hint) : null,
      id ? element("p", { class: "tools" },
        element("button", { type: "button", onclick: () => views.bytes.show(finding.offset) }, "Show the bytes"),
        element("button", { type: "button", onclick: () => views.map.showRange(finding.offset, Math.max(1, finding.length)) }, "Show on the map"),
        finding.tensor >= 0 ? element("button", { type: "button", onclick: () => views.tensors.show(finding.tensor) }, "Show the tensor") : null) : null);
  };

  const fact = (label, value) => [element("dt", {}, label), element("dd", {}, value)];

  function summary() {
    const [kind, verdict, sentence] = file.verdict;
    const dtypes = new Map();
    for (const tensor of views.tensors.all) {
      const before = dtypes.get(tensor.dtype) || [0, 0];
      dtypes.set(tensor.dtype, [before[0] + 1, before[1] + Number(tensor.bytes || 0)]);
    }
    const tensors = [...dtypes].sort((one, other) => other[1][1] - one[1][1])
      .map(([dtype, [number, bytes]]) => `${shown.number(number)} ${dtype} (${shown.short(bytes)})`);
    document.getElementById("summary").append(
      element("div", { class: `card ${kind}` },
        element("p", {}, element("span", { class: `chip ${kind}` }, verdict), ` ${sentence}`),
        element("dl", {},
          fact("format", file.format),
          fact("size", `${shown.bytes(file.size)}${file.size >= 1024 ? `, ${shown.short(file.size)}` : ""}`),
          fact("tensors", file.tensors ? `${shown.number(file.tensors)}: ${tensors.slice(0, 8).join(", ")}${tensors.length > 8 ? ", ..." : ""}` : "none"),
          fact("findings", Object.entries(file.counts).filter(([, number]) => number).map(([name, number]) => `${shown.number(number)} ${name}`).join(", ") || "none")),
        file.notes.map((note) => element("p", {}, note))));
  }

  function findings() {
    const FIRST = 20;
    const place = document.getElementById("findings-list");
    if (!data.findings.length) {
      place.append(element("p", { class: "dim" }, "There are none."));
      return;
    }
    const card = (finding) => views.finding(finding, `finding-${finding.at}`);
    place.append(...data.findings.slice(0, FIRST).map(card));
    if (data.findings.length > FIRST) {
      place.append(element("p", {}, element("button", {
        type: "button",
        onclick: (event) => { event.target.parentElement.replaceWith(...data.findings.slice(FIRST).map(card)); },
      }, `Show ${shown.number(data.findings.length - FIRST)} more`)));
    }
  }

  function records() {
    const place = document.getElementById("records-view");
    if (!data.records.length) place.append(element("p", { class: "dim" }, "There are none, or they cannot be read."));
    for (const { title, columns, rows, note } of data.records) {
      place.append(element("h3", {}, title), note ? element("p", { class: "dim" }, note) : "");
      if (!rows.length) continue;
      place.append(element("div", { class: "wide" }, element("table", { class: "record" },
        columns.length ? element("thead", {}, element("tr", {}, columns.map((name) => element("th", { scope: "col" }, name)))) : null,
        element("tbody", {}, rows.map((row) => element("tr", {}, row.map((value, i) => (
          i || columns.length ? element("td", { class: i > 1 && !columns.length ? "dim" : null }, value) : element("th", { scope: "row" }, value)))))))));
    }
  }

  summary();
  findings();
  records();
  views.tensors.start();
  views.bytes.start();
  if (location.hash.startsWith("#finding-")) {
    const wanted = document.getElementById(location.hash.slice(1));
    if (wanted) wanted.scrollIntoView();
  }
})();
