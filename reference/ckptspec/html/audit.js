"use strict";
// The report on an audit: counts, filters, a table of which only the rows in sight exist, and the chosen file.
(() => {
  const { data, element, prose } = ckptspec;
  const ROW = 30; // pixels, as the style sheet has it
  const SPARE = 12; // rows that exist above and below those in sight
  const HIGHEST = 15_000_000; // pixels: a browser draws nothing that is much higher
  const PAGE_KEYS = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity };
  const LOOKS = { canonical: "good", accepted: "good", refused: "bad", unfinished: "bad", crashed: "bad",
    unreadable: "warn", other: "none" };
  const [FOLDER, NAME, SIZE, VERDICT, FORMAT, VERSION, OLD, REJECTS, CANONICALS, NOTES, RULES, CHANGE, MESSAGE,
    DETAIL] = Array.from({ length: 14 }, (_, at) => at);
  const VERDICTS = Object.keys(data.verdicts), FORMATS = Object.keys(data.formats), CHANGES = Object.keys(data.changes);
  const CHANGE_WORDS = { refused: "newly bad" };
  const summary = data.summary;
  const byId = (id) => document.getElementById(id);
  const number = (value) => value.toLocaleString("en");
  const plural = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
  const changeWord = (name) => CHANGE_WORDS[name] || name;
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

  const state = { search: "", verdict: "", format: "", rule: "", folder: "", change: "", old: false };
  const controls = {};

  function selectOf(name, label, options) {
    controls[name] = element("select", { id: `f-${name}`, onchange: (event) => change(name, event.target.value) },
      options.map(([value, text]) => element("option", { value }, text)));
    return element("label", {}, label, controls[name]);
  }

  function inputOf(name, label, options, kind) {
    const list = `l-${name}`;
    controls[name] = element("input", { id: `f-${name}`, list: options && list, autocomplete: "off", spellcheck: "false",
      oninput: (event) => change(name, event.target.value) });
    const known = options && element("datalist", { id: list }, options.map((value) => element("option", { value })));
    return element("label", { class: kind }, label, controls[name], known);
  }

  function buildTools() {
    const there = (names, at) => names.filter((_, place) => data.rows.some((row) => row[at] === place));
    controls.old = element("input", { type: "checkbox", id: "f-old", onchange: (event) => change("old", event.target.checked) });
    const changes = there(CHANGES, CHANGE);
    byId("tools").append(
      inputOf("search", "Search names and faults", null, "search"),
      selectOf("verdict", "Verdict", [["", "all"], ["bad", "all that are bad"],
        ...there(VERDICTS, VERDICT).map((name) => [name, name])]),
      selectOf("format", "Format", [["", "all"], ...there(FORMATS, FORMAT).map((name) => [name, data.formats[name]])]),
      inputOf("rule", "Rule", Object.keys(data.rules).sort(), "short"),
      inputOf("folder", "Folder begins with", summary.folders.map((item) => item.path), "wide-input"),
      ...(changes.length ? [selectOf("change", "Change", [["", "any"], ["some", "changed in any way"],
        ...changes.map((name) => [name, changeWord(name)])])] : []),
      element("label", { class: "check" }, controls.old, "Only old versions"),
      element("button", { type: "button", id: "reset", onclick: () => setFilters({}) }, "Reset"),
    );
  }

  function change(name, value) {
    state[name] = value;
    refresh();
  }

  function setFilters(wanted) {
    for (const [name, control] of Object.entries(controls)) {
      state[name] = wanted[name] ?? (name === "old" ? false : "");
      if (name === "old") control.checked = state[name];
      else control.value = state[name];
    }
    refresh();
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
  let visible = []; // rows that fit, in order
  let chosen = null;

  function refresh() {
    const query = state.search.toLowerCase().split(/\s+/).filter(Boolean);
    const rule = state.rule.trim().toUpperCase();
    visible = data.rows.filter((row) => fits(row, query, rule));
    const key = KEYS[sorted.name];
    if (key) {
      const keyed = visible.map((row, at) => [key(row), at, row]);
      keyed.sort((one, other) => (one[0] < other[0] ? -1 : one[0] > other[0] ? 1 : one[1] - other[1]));
      visible = keyed.map((item) => item[2]);
    }
    if (sorted.down) visible.reverse();
    byId("shown").textContent = `${number(visible.length)} of ${plural(data.rows.length, "file")}`;
    grid.scrollTop = 0;
    draw(true);
    if (chosen) reveal(chosen);
  }

  // ----------------------------------------------------------------------------------------------------- the table

  const HEADS = { file: "File", verdict: "Verdict", format: "Format", size: "Size", rule: "What is the matter" };
  const grid = byId("grid");
  const above = element("td", { colspan: 5 }), below = element("td", { colspan: 5 });
  const body = element("tbody", {});
  const heads = {};
  let drawn = "";

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

  function buildTable() {
    for (const [name, label] of Object.entries(HEADS)) {
      heads[name] = element("th", { scope: "col" }, element("button", { type: "button", onclick: () => sort(name) }, label));
    }
    grid.append(element("table", { role: "grid", "aria-label": "Files", "aria-colcount": 5 },
      element("colgroup", {}, Object.keys(HEADS).map((name) => element("col", { class: name }))),
      element("thead", {}, element("tr", { "aria-rowindex": 1 }, Object.values(heads))), body));
    showSorted();
    grid.addEventListener("scroll", () => draw(false), { passive: true });
    grid.addEventListener("keydown", onKey);
    addEventListener("resize", () => draw(false));
  }

  function rowElement(place) {
    const row = visible[place];
    const verdict = VERDICTS[row[VERDICT]];
    return element("tr", { class: "case", "aria-rowindex": place + 2, "aria-selected": String(row === chosen),
      id: row === chosen ? "chosen-row" : null, onclick: () => choose(row, true) },
    element("th", { scope: "row", title: folderOf(row) + row[NAME] }, row[NAME], " ",
      element("span", { class: "folder" }, folderOf(row))),
    element("td", {}, element("span", { class: `chip ${LOOKS[verdict]}` }, verdict)),
    element("td", {}, formatOf(row)),
    element("td", { class: "number" }, bytes(row[SIZE])),
    element("td", { title: reason(row) }, row[CHANGE] < 0 ? null : [element("span", { class: "chip note" },
      changeWord(CHANGES[row[CHANGE]])), " "], reason(row)));
  }

  // Where the rows together are higher than a browser can draw, a pixel of scrolling stands for several of the table.
  const height = () => Math.min(visible.length * ROW, HIGHEST);
  const scale = () => (visible.length * ROW > HIGHEST
    ? (visible.length * ROW - grid.clientHeight) / (HIGHEST - grid.clientHeight) : 1);

  function draw(anew) {
    const top = grid.scrollTop * scale();
    const first = Math.max(0, Math.floor(top / ROW) - SPARE);
    const last = Math.min(visible.length, Math.ceil((top + grid.clientHeight) / ROW) + SPARE);
    if (!anew && drawn === `${first}-${last}` && scale() === 1) return;
    drawn = `${first}-${last}`;
    const before = Math.max(0, Math.min(height() - (last - first) * ROW, grid.scrollTop - (top - first * ROW)));
    above.style.height = `${before}px`;
    below.style.height = `${Math.max(0, height() - before - (last - first) * ROW)}px`;
    const rows = [];
    for (let place = first; place < last; place += 1) rows.push(rowElement(place));
    const nothing = visible.length ? [] : [element("tr", { class: "gap" },
      element("td", { class: "nothing", colspan: 5 }, "No file fits these filters."))];
    body.replaceChildren(element("tr", { class: "gap", "aria-hidden": "true" }, above), ...rows, ...nothing,
      element("tr", { class: "gap", "aria-hidden": "true" }, below));
    grid.firstElementChild.setAttribute("aria-rowcount", visible.length + 1);
  }

  function reveal(row) {
    const place = visible.indexOf(row);
    if (place < 0) return;
    const top = place * ROW, room = grid.clientHeight - ROW; // the heads stand in front of the first row
    const at = grid.scrollTop * scale();
    if (top < at) grid.scrollTop = top / scale();
    else if (top + ROW > at + room) grid.scrollTop = (top + ROW - room) / scale();
  }

  function choose(row, clicked) {
    chosen = row;
    byId("split").classList.add("open");
    reveal(row);
    draw(true);
    grid.setAttribute("aria-activedescendant", "chosen-row");
    showFile(row);
    const under = byId("detail").offsetTop > grid.offsetTop + grid.offsetHeight / 2; // where the window is narrow
    if (clicked && under) byId("detail").scrollIntoView();
  }

  function close() {
    chosen = null;
    byId("split").classList.remove("open");
    byId("detail").replaceChildren();
    grid.removeAttribute("aria-activedescendant");
    draw(true);
    grid.focus({ preventScroll: true });
  }

  function onKey(event) {
    if (event.key === "Escape" && chosen) close();
    const step = PAGE_KEYS[event.key];
    if (step === undefined || !visible.length || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target !== grid) return;
    event.preventDefault();
    const at = chosen ? visible.indexOf(chosen) : -1;
    const next = at < 0 && Number.isFinite(step) ? 0 : Math.max(0, Math.min(visible.length - 1, Math.max(at, 0) + step));
    choose(visible[next]);
  }

  // ------------------------------------------------------------------------------------------------------ one file

  const line = (...children) => element("p", {}, ...children);
  const facts = (pairs) => element("dl", {}, pairs.filter(([, value]) => value)
    .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));

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
      element("button", { type: "button", class: "close", onclick: close }, "Close"),
      element("h3", {}, folderOf(row) + row[NAME]),
      line(element("span", { class: `chip ${LOOKS[verdict]}` }, verdict), " ", data.verdicts[verdict]),
      facts([["format", formatOf(row)], ["size", `${bytes(row[SIZE])}`], ["findings", counts],
        ["change", row[CHANGE] < 0 ? "" : `${changeWord(CHANGES[row[CHANGE]])}: ${data.changes[CHANGES[row[CHANGE]]]}`],
        ["message", data.texts[row[MESSAGE]]], ["rules", all && !listed.length ? rulesOf(row) : ""]]),
      ...listed.map(findingElement),
      ...(all > listed.length ? [element("p", { class: "dim" }, listed.length
        ? `The first ${plural(listed.length, "finding")} of ${number(all)}.`
        : "This page has no room for the findings; ckptspec validate lists them.")] : []),
    );
    byId("detail").scrollTop = 0;
  }

  // ------------------------------------------------------------------------------------------------------- summary

  function goTo(filters) {
    setFilters(filters);
    byId("files").scrollIntoView();
    grid.focus({ preventScroll: true });
  }

  function countButton(value, filters, label) {
    if (!value || data.left_out) return element("span", { class: "plain" }, number(value));
    return element("button", { type: "button", class: "plain", "aria-label": `${plural(value, "file")}: ${label}`,
      onclick: () => goTo(filters) }, number(value));
  }

  function tableOf(title, names, rows) {
    if (!rows.length) return null;
    return element("div", {}, element("h3", {}, title), element("table", {},
      element("thead", {}, element("tr", {}, names.map((text) => element("th", { scope: "col" }, text)))),
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

  function ruleRow(item) {
    return element("tr", {}, element("th", { scope: "row", title: data.rules[item.rule] ? data.rules[item.rule][1] : "" },
      element("code", {}, item.rule)), element("td", {}, data.rules[item.rule] ? data.rules[item.rule][0] : ""),
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
        changeWord(name))]);
    return line(`Since ${summary.baseline}: `, ...(parts.length ? parts : ["nothing has changed"]), ".");
  }

  function buildSummary() {
    const { run } = summary;
    const wrong = data.bad.reduce((sum, name) => sum + summary.verdicts[name], 0);
    const ended = run.state === "finished";
    byId("summary").append(
      element("p", { id: "verdict" }, element("span", { class: `chip ${wrong ? "bad" : "good"}` }, wrong ? "✗" : "✓"), " ",
        wrong ? `${number(wrong)} of ${plural(summary.files, "file")} ${wrong === 1 ? "needs" : "need"} looking after.`
          : `${plural(summary.files, "file")}; none needs looking after.`),
      line(`Run ${run.id}, ${run.started}, of ${run.scope.places.join(", ")}: ${bytes(summary.size)}, ckptspec ${run.examiner}.`),
      ...(ended ? [] : [element("p", { class: "card warn" }, `This run is not at its end (${run.state}): not all files were looked at.`)]),
      ...(data.left_out ? [element("p", { class: "card warn" }, `${plural(data.left_out, "more file")} found no room on this page.`)] : []),
      ...(summary.baseline ? [changesLine()] : []),
      ...(summary.known ? [line(`${plural(summary.known, "file")} bad as before.`)] : []),
      element("div", { class: "columns" },
        tableOf("Verdicts", ["Verdict", "Files", "Meaning"], Object.entries(summary.verdicts).filter(([, value]) => value).map(verdictRow)),
        tableOf("Formats", ["Format", "Files", "Size"], summary.formats.slice(0, 20).map(formatRow)),
        tableOf("Folders with the most bad files", ["Folder", "Bad files"], summary.folders.map(folderRow)),
        tableOf("Rules that files break", ["Rule", "Kind", "Files"], summary.rules.slice(0, 12).map(ruleRow))),
    );
  }

  buildSummary();
  if (!data.rows.length) {
    byId("files").hidden = true;
    return;
  }
  buildTools();
  buildTable();
  refresh();
})();
