"use strict";
// The table of tensors: sorted, searched, a page of rows at a time.
views.tensors = (() => {
  const { data, element, svg } = ckptspec;
  const { texts, rows } = data.tensors;
  const SIZES = [50, 100, 250, 500];

  const findings = new Map(); // by tensor
  data.findings.forEach((finding) => {
    if (finding.tensor >= 0) findings.set(finding.tensor, [...(findings.get(finding.tensor) || []), finding]);
  });

  const read = ([key, section, name, dtype, encoding, shape, offset, bytes, accepted, found], at) => {
    const made = {
      at, key, name, section: texts[section], dtype: texts[dtype], encoding: texts[encoding], shape, offset, bytes,
      refused: !accepted, reason: typeof found === "number" ? texts[found] : "", statistics: null,
      findings: findings.get(at) || [],
    };
    if (Array.isArray(found)) {
      const [elements, parts, nan, infinite, minimum, maximum, mean, heights, low, width] = found;
      made.statistics = { elements, parts, nan, infinite, minimum, maximum, mean, heights, low, width };
    }
    made.words = `${made.name}\n${made.section}\n${made.dtype}\n${made.encoding}\n${made.shape}`.toLowerCase();
    return made;
  };
  const tensors = rows.map(read);

  // A number of a statistic with as many digits as can be compared at a glance; the rest is in the title.
  function brief(value) {
    if (value === undefined || value === null) return "";
    if (typeof value === "string" || Number.isInteger(value)) {
      const text = String(value);
      return text.length <= 11 ? text : Number(value).toExponential(4);
    }
    return String(Number(value.toPrecision(5)));
  }

  const statistic = (name) => (tensor) => (tensor.statistics ? tensor.statistics[name] : undefined);
  const columns = [
    { name: "name", label: "name", value: (tensor) => tensor.name },
    { name: "section", label: data.file.section, value: (tensor) => tensor.section },
    { name: "dtype", label: "dtype", value: (tensor) => tensor.dtype },
    { name: "encoding", label: "encoding", value: (tensor) => tensor.encoding },
    { name: "shape", label: "shape", value: (tensor) => tensor.shape,
      order: (tensor) => (tensor.shape === null ? undefined : tensor.shape.split(" x ").reduce((a, b) => a * (b || 1), 1)) },
    { name: "bytes", label: "bytes", value: (tensor) => tensor.bytes, number: true },
    { name: "offset", label: "offset", value: (tensor) => tensor.offset, number: true },
    ...["minimum", "maximum", "mean"].map((name) => (
      { name, label: name.slice(0, name === "mean" ? 4 : 3), value: statistic(name), number: true, brief: true, measured: true })),
    { name: "nan", label: "NaN", value: statistic("nan"), number: true, zero: true, measured: true },
    { name: "infinite", label: "inf", value: statistic("infinite"), number: true, zero: true, measured: true },
  ].filter(({ name, value, measured }) => {
    if (name === "section") return tensors.some((tensor) => tensor.section);
    if (name === "encoding") return tensors.some((tensor) => tensor.encoding !== "dense");
    return value && (data.values || !measured);
  });
  if (data.values) columns.push({ name: "histogram", label: "histogram" });

  let order = tensors.map((_, at) => at);
  let listed = order;
  let sorted = { name: "", down: false };
  let page = 0;
  let pageSize = SIZES[1];
  let open = -1;

  function key(column, tensor) {
    const value = (column.order || column.value)(tensor);
    if (value === undefined || value === null) return null;
    return column.number || column.order ? Number(value) : value;
  }

  function sort(name, down) {
    sorted = { name, down };
    const column = columns.find((item) => item.name === name);
    const keys = tensors.map((tensor) => key(column, tensor));
    const sign = down ? -1 : 1;
    order = tensors.map((_, at) => at).sort((a, b) => {
      const [one, other] = [keys[a], keys[b]];
      if (one === null || other === null) return (one === null) - (other === null) || a - b; // what is missing comes last
      return one < other ? -sign : one > other ? sign : a - b;
    });
    filter();
  }

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    listed = order.filter((at) => (
      (!only.checked || tensors[at].findings.length || tensors[at].refused)
      && words.every((word) => tensors[at].words.includes(word))));
    page = 0;
    show();
  }

  // ------------------------------------------------------------------------------------------------------- histograms

  const level = (char) => parseInt(char, 36);

  function histogram(statistics, width, height, label) {
    const { heights, low, width: bin } = statistics;
    const step = Math.min(width / heights.length, width / 8); // few bins are no block of colour
    const gap = step > 4 ? 1 : 0;
    let path = "";
    for (let i = 0; i < heights.length; i += 1) {
      const tall = level(heights[i]) * (height / 35);
      if (tall) path += `M${(i * step).toFixed(2)} ${height}v${(-tall).toFixed(2)}h${(step - gap).toFixed(2)}v${tall.toFixed(2)}z`;
    }
    const what = bin === 0 ? `all values are ${low}` : `${heights.length} bins of ${bin} from ${low}`;
    return svg("svg", { class: "histogram", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Histogram of ${label}: ${what}` },
      svg("title", {}, what), svg("path", { d: path }), svg("line", { x1: 0, x2: width, y1: height, y2: height }));
  }

  // -------------------------------------------------------------------------------------------------------------- rows

  function cell(column, tensor) {
    if (column.name === "histogram") {
      if (!tensor.statistics) return element("td", { class: "dim" }, tensor.reason);
      if (tensor.statistics.heights === undefined) return element("td", { class: "dim" }, "no finite value");
      return element("td", {}, histogram(tensor.statistics, 112, 24, tensor.name));
    }
    const value = column.value(tensor);
    if (column.number) {
      const text = column.brief ? brief(value) : value === undefined ? "" : shown.number(value);
      const bad = column.zero && value ? " bad-number" : "";
      return element("td", { class: `number${bad}`, title: column.brief && value !== undefined ? String(value) : null }, text);
    }
    return element("td", { class: column.name === "shape" ? "shape" : null }, value === null ? "?" : value || "");
  }

  function nameCell(tensor) {
    return element("th", { scope: "row", class: "name" },
      element("button", { type: "button", "aria-expanded": String(open === tensor.at), onclick: () => toggle(tensor.at) }, tensor.name || "(no name)"),
      tensor.refused ? element("span", { class: "chip bad" }, "refused") : null,
      tensor.findings.slice(0, 3).map((finding) => element("span", { class: `chip ${views.severity[finding.severity]}`, title: finding.sentence }, finding.rule)));
  }

  function fact(label, ...content) {
    return [element("dt", {}, label), element("dd", {}, ...content)];
  }

  function detailsRow(tensor) {
    const { statistics } = tensor;
    const facts = [
      fact("path", element("code", {}, tensor.key)),
      fact("elements", statistics ? shown.number(statistics.elements) : "not read"),
      tensor.offset === null ? [] : fact("payload", `bytes ${shown.number(tensor.offset)} on, ${shown.bytes(tensor.bytes)}`),
    ];
    if (statistics && statistics.parts !== statistics.elements) facts.push(fact("values", `${shown.number(statistics.parts)}: all parts of each element, measured together`));
    if (statistics && statistics.heights !== undefined) {
      facts.push(fact("bounds", `${statistics.minimum} to ${statistics.maximum}`), fact("mean", String(statistics.mean)),
        fact("bins", statistics.width === 0 ? "all values are the same" : `${statistics.width} wide, the first from ${statistics.low}`));
    }
    return element("tr", { class: "more" }, element("td", { colspan: columns.length },
      element("div", { class: "more-content" },
        element("dl", {}, facts),
        statistics && statistics.heights !== undefined ? histogram(statistics, 480, 120, tensor.name) : null),
      tensor.findings.slice(0, 20).map((finding) => views.finding(finding)),
      element("p", { class: "tools" },
        element("button", { type: "button", disabled: tensor.offset === null, onclick: () => views.map.showRange(Number(tensor.offset), Number(tensor.bytes)) }, "Show on the map"),
        element("button", { type: "button", disabled: tensor.offset === null, onclick: () => views.bytes.show(Number(tensor.offset)) }, "Show its bytes"))));
  }

  function toggle(at) {
    open = open === at ? -1 : at;
    show();
    const button = body.querySelector(`tr[data-tensor="${at}"] button`);
    if (button) button.focus();
  }

  function show() {
    const pages = Math.max(1, Math.ceil(listed.length / pageSize));
    page = Math.min(Math.max(page, 0), pages - 1);
    const visible = listed.slice(page * pageSize, (page + 1) * pageSize);
    body.replaceChildren(...visible.flatMap((at) => {
      const tensor = tensors[at];
      const row = element("tr", { "data-tensor": at, class: tensor.findings.length || tensor.refused ? "found" : null },
        columns.map((column) => (column.name === "name" ? nameCell(tensor) : cell(column, tensor))));
      return open === at ? [row, detailsRow(tensor)] : [row];
    }));
    for (const column of columns) {
      const direction = sorted.name !== column.name ? "none" : sorted.down ? "descending" : "ascending";
      if (column.head) column.head.setAttribute("aria-sort", direction);
    }
    const first = listed.length ? page * pageSize + 1 : 0;
    status.textContent = `${shown.number(first)} to ${shown.number(page * pageSize + visible.length)} of ${shown.number(listed.length)}`
      + (listed.length < tensors.length ? ` that match, ${shown.number(tensors.length)} in all` : "");
    before.disabled = page === 0;
    after.disabled = page === pages - 1;
  }

  // -------------------------------------------------------------------------------------------------------------- view

  const search = element("input", { type: "search", id: "tensor-search", placeholder: "name, dtype, shape", autocomplete: "off", spellcheck: "false", oninput: filter });
  const only = element("input", { type: "checkbox", onchange: filter });
  const status = element("span", { role: "status", class: "dim" });
  const turn = (by) => () => { page += by; show(); };
  const before = element("button", { type: "button", onclick: turn(-1) }, "Previous");
  const after = element("button", { type: "button", onclick: turn(1) }, "Next");
  const sizes = element("select", { "aria-label": "Rows on a page", onchange: () => { pageSize = Number(sizes.value); page = 0; show(); } },
    SIZES.map((size) => element("option", { value: size, selected: size === pageSize }, `${size} rows`)));
  const head = (column) => {
    if (!column.value) return element("th", { scope: "col" }, column.label);
    column.head = element("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": "none" },
      element("button", { type: "button", onclick: () => sort(column.name, sorted.name === column.name && !sorted.down) }, column.label));
    return column.head;
  };
  const body = element("tbody");
  const place = document.getElementById("tensors-view");
  if (!tensors.length) {
    place.append(element("p", { class: "dim" }, "There are none, or they cannot be read."));
  } else {
    const marked = tensors.some((tensor) => tensor.findings.length || tensor.refused);
    place.append(
      element("div", { class: "tools" },
        element("label", { for: "tensor-search" }, "Search"), search,
        marked ? element("label", {}, only, " only those with findings") : null,
        status, before, after, tensors.length > SIZES[0] ? sizes : null),
      data.values ? "" : element("p", { class: "dim" }, "Values were not read: there are no statistics."),
      element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Table of tensors" },
        element("table", { class: "full tensors" }, element("thead", {}, element("tr", {}, columns.map(head))), body)),
    );
  }

  return {
    start: show,
    all: tensors,
    show(at) {
      search.value = "";
      only.checked = false;
      listed = order;
      open = at;
      page = Math.floor(listed.indexOf(at) / pageSize);
      show();
      const row = body.querySelector(`tr[data-tensor="${at}"]`);
      row.scrollIntoView({ block: "center" });
      row.querySelector("button").focus({ preventScroll: true });
    },
  };
})();
