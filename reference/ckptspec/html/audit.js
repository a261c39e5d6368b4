"use strict";
// The report on an audit: counts, filters, a table of which only the rows in sight exist, and the chosen file.
(() => {
  const { data, element, prose } = ckptspec;
  const { byId, number, plural, line, facts, filters, table } = explorer;
  const LOOKS = { canonical: "good", accepted: "good", refused: "bad", unfinished: "bad", crashed: "bad",
    unreadable: "warn", other: "none" };
  const [FOLDER, NAME, SIZE, VERDICT, FORMAT, VERSION, OLD, REJECTS, CANONICALS, NOTES, RULES, CHANGE, MESSAGE,
    DETAIL] = Array.from({ length: 14 }, (_, at) => at);
  const VERDICTS = Object.keys(data.verdicts), FORMATS = Object.keys(data.formats), CHANGES = Object.keys(data.changes);
  const summary = data.summary;
  const bytes = (value) => {
    const units = ["bytes", "kB", "MB", "GB", "TB"];
    let at = 0;
    while (value >= 1000 && at < units.length - 1) [value, at] = [value / 1000, at + 1];
    return at ? `${value.toFixed(1)} ${units[at]}` : plural(value, "byte");
  };
  const formatOf = (row) => (row[FORMAT] < 0 ? "" : data.formats[FORMATS[row[FORMAT]]] +
    (row[VERSION] === null ? "" : ` version ${row[VERSION]}`) + (row[OLD] ? " (old)" : ""));
  const rulesOf = (row) => data.texts[row[RULES]];
  const folderOf = (row) => { const folder = data.texts[row[FOLDER]]; return folder.endsWith("/") ? folder : `${folder}/`; };
  const reason = (row) => (row[DETAIL] ? `${row[DETAIL][0][0]}: found ${row[DETAIL][0][5]}` : data.texts[row[MESSAGE]] || rulesOf(row));

  // ---------------------------------------------------------------------------------------------------- filters

  const filter = filters({ search: "", verdict: "", format: "", rule: "", folder: "", change: "", old: false }, refresh);
  const { state } = filter;

  function buildTools() {
    const there = (names, at) => names.filter((_, place) => data.rows.some((row) => row[at] === place));
    const changes = there(CHANGES, CHANGE);
    byId("tools").append(
      filter.input("search", "Search names and faults", null, "search"),
      filter.select("verdict", "Verdict", [["", "all"], ["bad", "all that are bad"],
        ...there(VERDICTS, VERDICT).map((name) => [name, name])]),
      filter.select("format", "Format", [["", "all"], ...there(FORMATS, FORMAT).map((name) => [name, data.formats[name]])]),
      filter.input("rule", "Rule", Object.keys(data.rules).sort(), "short"),
      filter.input("folder", "Folder begins with", summary.folders.map((item) => item.path), "wide-input"),
      ...(changes.length ? [filter.select("change", "Change", [["", "any"], ["some", "changed in any way"],
        ...changes.map((name) => [name, name])])] : []),
      filter.check("old", "Only old versions"),
      filter.reset(),
    );
  }

  const bad = new Set(data.bad);
  const textOf = (row) => `${folderOf(row)}${row[NAME]}\n${reason(row)}\n${rulesOf(row)}`.toLowerCase();

  function fits(row, query, rule) {
    const verdict = VERDICTS[row[VERDICT]];
    if (state.verdict === "bad" ? !bad.has(verdict) : state.verdict && verdict !== state.verdict) return false;
    if (state.format && FORMATS[row[FORMAT]] !== state.format) return false;
    if (state.old && !row[OLD]) return false;
    if (state.change && (state.change === "some" ? row[CHANGE] < 0 : CHANGES[row[CHANGE]] !== state.change)) return false;
    if (rule && !rulesOf(row).includes(rule)) return false;
    if (state.folder && !folderOf(row).startsWith(state.folder)) return false;
    return !query.length || query.every((word) => textOf(row).includes(word));
  }

  const KEYS = { file: null, verdict: (row) => row[VERDICT], format: (row) => formatOf(row), size: (row) => row[SIZE],
    rule: (row) => reason(row) };
  const sorted = { name: "file", down: false };

  function refresh() {
    const query = state.search.toLowerCase().split(/\s+/).filter(Boolean);
    const rule = state.rule.trim().toUpperCase();
    let visible = data.rows.filter((row) => fits(row, query, rule));
    const key = KEYS[sorted.name];
    if (key) {
      const keyed = visible.map((row, at) => [key(row), at, row]);
      keyed.sort((one, other) => (one[0] < other[0] ? -1 : one[0] > other[0] ? 1 : one[1] - other[1]));
      visible = keyed.map((item) => item[2]);
    }
    if (sorted.down) visible.reverse();
    byId("shown").textContent = `${number(visible.length)} of ${plural(data.rows.length, "file")}`;
    files.show(visible);
  }

  // ----------------------------------------------------------------------------------------------------- the table

  const HEADS = { file: "File", verdict: "Verdict", format: "Format", size: "Size", rule: "What is wrong" };
  const heads = {};

  function sort(name) {
    sorted.down = sorted.name === name && !sorted.down;
    sorted.name = name;
    showSorted();
    refresh();
  }

  function showSorted() {
    for (const [name, head] of Object.entries(heads)) {
      head.setAttribute("aria-sort", name !== sorted.name ? "none" : sorted.down ? "descending" : "ascending");
    }
  }

  for (const [name, label] of Object.entries(HEADS)) {
    heads[name] = element("th", { scope: "col", class: name === "size" ? "number" : null }, element("button", { type: "button", onclick: () => sort(name) }, label));
  }

  function cellsOf(row) {
    const verdict = VERDICTS[row[VERDICT]];
    return [
      element("th", { scope: "row", title: folderOf(row) + row[NAME] }, row[NAME], " ",
        element("span", { class: "folder" }, folderOf(row))),
      element("td", {}, element("span", { class: `chip ${LOOKS[verdict]}` }, verdict)),
      element("td", {}, formatOf(row)),
      element("td", { class: "number" }, bytes(row[SIZE])),
      element("td", { title: reason(row) }, row[CHANGE] < 0 ? null : [element("span", { class: "chip note" },
        CHANGES[row[CHANGE]]), " "], reason(row)),
    ];
  }

  const files = table({
    label: "Files",
    columns: Object.keys(HEADS).map((name) => element("col", { class: name })),
    heads: Object.values(heads),
    nothing: "No file fits these filters.",
    idOf: (row, isChosen) => (isChosen ? "chosen-row" : null),
    cells: cellsOf,
    chose: showFile,
    closed: () => {},
  });

  // ------------------------------------------------------------------------------------------------------ one file

  function findingElement([rule, severity, offset, length, path, found, expected, hint]) {
    const looks = { reject: "bad", canonical: "warn", note: "note" };
    const place = length > 1 ? `bytes ${number(offset)} to ${number(offset + length - 1)}` : `byte ${number(offset)}`;
    return element("div", { class: `card ${looks[severity]}` },
      element("h5", {}, element("code", {}, rule), element("span", { class: `chip ${looks[severity]}` }, severity)),
      line(place, path ? `, ${path}` : ""), facts([["found", found], ["expected", expected]]),
      data.rules[rule] ? element("p", { class: "dim" }, prose(data.rules[rule][1])) : null,
      hint ? line(hint) : null);
  }

  function showFile(row) {
    const verdict = VERDICTS[row[VERDICT]];
    const counts = [[REJECTS, "reject"], [CANONICALS, "canonical"], [NOTES, "note"]]
      .filter(([at]) => row[at]).map(([at, name]) => `${number(row[at])} ${name}`).join(", ");
    const listed = row[DETAIL] || [];
    const all = row[REJECTS] + row[CANONICALS] + row[NOTES];
    byId("detail").replaceChildren(
      element("button", { type: "button", class: "close", onclick: files.close }, "Close"),
      element("h3", {}, folderOf(row) + row[NAME]),
      line(element("span", { class: `chip ${LOOKS[verdict]}` }, verdict), " ", data.verdicts[verdict]),
      facts([["format", formatOf(row)], ["size", `${bytes(row[SIZE])}`], ["findings", counts],
        ["change", row[CHANGE] < 0 ? "" : `${CHANGES[row[CHANGE]]}: ${data.changes[CHANGES[row[CHANGE]]]}`],
        ["message", data.texts[row[MESSAGE]]], ["rules", all && !listed.length ? rulesOf(row) : ""]]),
      ...listed.map(findingElement),
      ...(all > listed.length ? [element("p", { class: "dim" }, listed.length
        ? `The first ${plural(listed.length, "finding")} of ${number(all)}.`
        : "This page has no room for the findings; ckptspec validate lists them.")] : []),
    );
    byId("detail").scrollTop = 0;
  }

  // ------------------------------------------------------------------------------------------------------- summary

  function goTo(wanted) {
    filter.set(wanted);
    byId("files").scrollIntoView();
    files.focus();
  }

  function countButton(value, wanted, label) {
    if (!value || data.left_out) return element("span", { class: "plain" }, number(value));
    return element("button", { type: "button", class: "plain", "aria-label": `${plural(value, "file")}: ${label}`,
      onclick: () => goTo(wanted) }, number(value));
  }

  // Heads with "#" in front stand over numbers. Of many rows the first are shown, and the title says so.
  function tableOf(title, names, items, rowOf, most) {
    if (!items.length) return null;
    const rows = items.slice(0, most).map(rowOf);
    const told = rows.length < items.length ? ` (${rows.length} of ${number(items.length)})` : "";
    const head = (text) => element("th", { scope: "col", class: text.startsWith("#") ? "number" : null }, text.replace("#", ""));
    return element("div", {}, element("h3", {}, title + told), element("table", {},
      element("thead", {}, element("tr", {}, names.map(head))),
      element("tbody", {}, rows)));
  }

  function verdictRow([name, value]) {
    return element("tr", {}, element("th", { scope: "row" }, element("span", { class: `chip ${LOOKS[name]}` }, name)),
      element("td", { class: "number" }, countButton(value, { verdict: name }, name)),
      element("td", { class: "dim" }, data.verdicts[name]));
  }

  function formatRow(item) {
    const text = data.formats[item.format] + (item.version === null ? "" : ` version ${item.version}`);
    return element("tr", {}, element("th", { scope: "row" }, text),
      element("td", { class: "number" }, number(item.files)), element("td", { class: "number" }, bytes(item.size)));
  }

  // Those for which readers refuse files come first, and within a kind the most frequent ones, as they are given.
  const kindOf = (rule) => (data.rules[rule] ? data.rules[rule][0] : "");
  const byKind = (rules) => ["reject", "canonical", "note", ""].flatMap((kind) => rules.filter((item) => kindOf(item.rule) === kind));

  function ruleRow(item) {
    return element("tr", {}, element("th", { scope: "row", title: data.rules[item.rule] ? data.rules[item.rule][1] : "" },
      element("code", {}, item.rule)), element("td", {}, kindOf(item.rule)),
    element("td", { class: "number" }, countButton(item.files, { rule: item.rule }, item.rule)));
  }

  function folderRow(item) {
    return element("tr", {}, element("th", { scope: "row" }, item.path),
      element("td", { class: "number" }, countButton(item.bad, { folder: item.path, verdict: "bad" }, `bad in ${item.path}`)));
  }

  function changesLine() {
    const changed = Object.entries(summary.changes).filter(([, value]) => value);
    const parts = changed.flatMap(([name, value], at) => [at ? ", " : "", `${number(value)} `,
      name === "vanished" ? name : element("button", { type: "button", class: "reset", onclick: () => goTo({ change: name }) },
        name)]);
    return line(`Since ${summary.baseline}: `, ...(parts.length ? parts : ["nothing has changed"]), ".");
  }

  function buildSummary() {
    const { run } = summary;
    const wrong = data.bad.reduce((sum, name) => sum + summary.verdicts[name], 0);
    const ended = run.state === "finished";
    byId("summary").append(
      element("p", { id: "verdict" }, element("span", { class: `chip ${wrong ? "bad" : "good"}` }, wrong ? "✗" : "✓"), " ",
        wrong ? `${number(wrong)} of ${plural(summary.files, "file")} ${wrong === 1 ? "needs" : "need"} attention.`
          : `${plural(summary.files, "file")}; none needs attention.`),
      line(`Run ${run.id}, ${run.started}, of ${run.scope.places.join(", ")}: ${bytes(summary.size)}, ckptspec ${run.examiner}.`),
      ...(ended ? [] : [element("p", { class: "card warn" }, `This run did not finish (${run.state}): not all files were examined.`)]),
      ...(data.left_out ? [element("p", { class: "card warn" }, `${plural(data.left_out, "more file")} did not fit on this page.`)] : []),
      ...(summary.baseline ? [changesLine()] : []),
      ...(summary.known ? [line(`${plural(summary.known, "file")} bad as before.`)] : []),
      element("div", { class: "columns" },
        tableOf("Verdicts", ["Verdict", "#Files", "Meaning"], Object.entries(summary.verdicts).filter(([, value]) => value), verdictRow),
        tableOf("Formats", ["Format", "#Files", "#Size"], summary.formats, formatRow, 20),
        tableOf("Folders with the most bad files", ["Folder", "#Bad files"], summary.folders, folderRow),
        tableOf("Rules that files break", ["Rule", "Kind", "#Files"], byKind(summary.rules), ruleRow, 12)),
    );
  }

  buildSummary();
  if (!data.rows.length) {
    byId("files").hidden = true;
    return;
  }
  buildTools();
  showSorted();
  files.build();
  refresh();
})();
