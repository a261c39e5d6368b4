"use strict";
// The matrix: counts, filters, a table of which only the rows in sight exist, and the chosen case.
(() => {
  const { data, element } = ckptspec;
  const { byId, number, plural, line, facts, filters, table } = explorer;
  const EXCHANGE = data.kind === "exchange";
  const READINGS = { same: "same", other: "other", refused: "refused", broken: "broken", not_asked: "not asked" };
  const BROKEN = new Set(["crash", "timeout", "garbage", "too-much-output"]);
  const MARKS = { passed: "✓", failed: "✗", stale: "✗", warned: "!", known: "~", skipped: "·" };
  const LOOKS = { passed: "passed", failed: "bad", stale: "bad", warned: "warn", known: "note", skipped: "none" };
  const GROUPS = { decode: "decoders", encode: "encoders" };
  const words = (name) => name.replaceAll("-", " ");

  // A cell: [status, outcome, accepted, text, expected, happened, the rest]; the texts are numbers.
  const cellOf = (row, column) => data.cells[column][row];
  const caseOf = (row) => data.cases[data.rows[row][0]];
  const shownText = (cell) => (cell ? `${MARKS[cell[0]]} ${prefix(cell)}${data.texts[cell[3]]}` : "– not asked");
  const prefix = (cell) => (cell[0] === "known" || cell[0] === "stale" ? `${cell[0]}: ` : "");
  const look = (cell) => (cell ? LOOKS[cell[0]] : "none");

  function readingOf(cell) {
    if (!cell || cell[0] === "skipped") return "not_asked";
    if (BROKEN.has(cell[1])) return "broken";
    if (!cell[2]) return "refused";
    return cell[1] === "pass" ? "same" : "other";
  }

  // ---------------------------------------------------------------------------------------------------- filters

  const filter = filters({ search: "", group: "", format: "", verdict: "", rule: "", tag: "", column: "", outcome: "",
    differs: false }, refresh);
  const { state } = filter;
  const unique = (values) => [...new Set(values)];

  function outcomeOptions() {
    const statuses = new Set(), outcomes = new Set();
    for (const cells of data.cells) {
      for (const cell of cells) {
        statuses.add(cell ? cell[0] : "not-asked");
        if (cell && cell[1]) outcomes.add(cell[1]);
      }
    }
    const made = [["", "anything"], ["not-passed", "did not pass"]];
    for (const status of Object.keys(data.statuses)) if (statuses.has(status)) made.push([`s:${status}`, status]);
    for (const name of Object.keys(data.outcomes)) {
      if (outcomes.has(name) && name !== "pass") made.push([`o:${name}`, words(name)]);
    }
    if (EXCHANGE) for (const [name, text] of Object.entries(READINGS)) made.push([`r:${name}`, `read: ${text}`]);
    else if (statuses.has("not-asked")) made.push(["r:not_asked", "not asked"]);
    return made;
  }

  function buildTools() {
    const any = (text, values) => [["", text], ...values.map((value) => [value, value])];
    const groups = data.groups.map((name, at) => [String(at), EXCHANGE ? name : GROUPS[name] || name]);
    const names = data.columns.map((column, at) => [String(at), column.name]);
    const single = data.columns.length === 1;
    byId("tools").append(
      filter.input("search", "Search", null, "search"),
      filter.select("group", EXCHANGE ? "Written by" : "Asked of", [["", "all"], ...groups]),
      filter.select("format", "Format", any("all", unique(data.cases.map((item) => item.format)))),
      filter.select("verdict", "Verdict", any("all", unique(data.cases.map((item) => item.verdict)))),
      filter.input("rule", "Rule", unique(data.cases.flatMap((item) => item.rules)).sort(), "short"),
      filter.input("tag", "Tag", unique(data.cases.flatMap((item) => item.tags)).sort(), "short"),
      filter.select("column", "Implementation", [["", "any"], ...names]),
      filter.select("outcome", "Outcome", outcomeOptions()),
      filter.check("differs", single ? "Only what did not pass" : "Only differences"),
      filter.reset(),
    );
  }

  const searched = []; // row -> its text in lower case, made when it is first searched
  function textOf(row) {
    if (searched[row] === undefined) {
      const item = caseOf(row);
      const happened = data.cells.map((cells) => cells[row]).filter(Boolean)
        .flatMap((cell) => [data.texts[cell[3]], data.texts[cell[5]]]);
      searched[row] = [data.ids[row], item.title, item.rules.join(" "), ...happened].join("\n").toLowerCase();
    }
    return searched[row];
  }

  function cellFits(cell, wanted) {
    const [kind, name] = [wanted.slice(0, 2), wanted.slice(2)];
    if (wanted === "not-passed") return cell !== null && cell[0] !== "passed" && cell[0] !== "skipped";
    if (kind === "s:") return cell !== null && cell[0] === name;
    if (kind === "o:") return cell !== null && cell[1] === name;
    return readingOf(cell) === name;
  }

  function rowFits(row, query, rule, tag) {
    const [, group, differs] = data.rows[row];
    const item = caseOf(row);
    if (state.differs && !differs) return false;
    if (state.group !== "" && String(group) !== state.group) return false;
    if (state.format && item.format !== state.format) return false;
    if (state.verdict && item.verdict !== state.verdict) return false;
    if (rule && !item.rules.some((name) => name.includes(rule))) return false;
    if (tag && !item.tags.some((name) => name.toLowerCase().includes(tag))) return false;
    if (state.outcome) {
      const first = EXCHANGE && state.outcome.startsWith("r:") ? 1 : 0;
      const columns = state.column === "" ? [...data.columns.keys()].slice(first) : [Number(state.column)];
      if (!columns.some((column) => cellFits(cellOf(row, column), state.outcome))) return false;
    } else if (state.column !== "" && cellOf(row, Number(state.column)) === null) {
      return false;
    }
    return query.every((word) => textOf(row).includes(word));
  }

  function refresh() {
    const query = state.search.toLowerCase().split(/\s+/).filter(Boolean);
    const rule = state.rule.trim().toUpperCase(), tag = state.tag.trim().toLowerCase();
    const visible = [...data.rows.keys()].filter((row) => rowFits(row, query, rule, tag));
    byId("shown").textContent = `${number(visible.length)} of ${plural(data.rows.length, "row")}`;
    cases.show(visible);
  }

  // ----------------------------------------------------------------------------------------------------- the table

  function cellsOf(row) {
    const item = caseOf(row);
    const cells = data.columns.map((_, column) => {
      const cell = cellOf(row, column);
      return element("td", {}, element("span", { class: `chip ${look(cell)}` }, shownText(cell)));
    });
    return [element("th", { scope: "row", title: `${data.ids[row]}: ${item.title}` }, data.ids[row]),
      element("td", {}, item.verdict), cells];
  }

  const heads = [EXCHANGE ? "Document" : "Test", "Verdict", ...data.columns.map((column) => column.name)];
  const cases = table({
    label: "Cases",
    columns: heads.map((_, at) => element("col", { class: ["id", "verdict"][at] || "cell" })),
    heads: heads.map((name) => element("th", { scope: "col", title: name }, name)),
    nothing: "No case fits these filters.",
    idOf: (row) => `row-${row}`,
    cells: cellsOf,
    chose: (row) => {
      showCase(row);
      history.replaceState(null, "", `#test=${encodeURIComponent(data.ids[row])}`);
    },
    closed: () => history.replaceState(null, "", "#cases"),
  });
  cases.made.style.setProperty("--columns", data.columns.length);

  // ------------------------------------------------------------------------------------------------------ one case

  const block = (name, lines) => (lines ? [line(name), element("pre", {}, lines.join("\n"))] : []);

  function command(text) {
    const copy = element("button", { type: "button", onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        copy.textContent = "Copied";
      } catch { // not every page may
        getSelection().selectAllChildren(shown);
        copy.textContent = "Selected";
      }
    } }, "Copy");
    const shown = element("pre", {}, text);
    return [line("By hand ", copy), shown];
  }

  function ruleElement(name) {
    const rule = data.rules[name];
    if (!rule) return element("div", { class: "card" }, element("code", {}, name), " is not a rule of the catalogue.");
    const label = rule.link ? element("a", { href: rule.link }, name) : element("strong", {}, name);
    return element("div", { class: "card" }, line(label, " ", element("span", { class: "chip" }, rule.kind)),
      line(rule.sentence),
      rule.reason ? element("p", { class: "dim" }, rule.reason) : null,
      rule.upstream ? element("p", { class: "dim" }, rule.upstream) : null,
      rule.link ? null : element("p", { class: "dim" }, "More: ", element("code", {}, `ckptspec explain ${name}`)));
  }

  function cellElement(row, column) {
    const cell = cellOf(row, column);
    const head = element("h5", {}, data.columns[column].name,
      element("span", { class: `chip ${look(cell)}` }, shownText(cell)));
    if (!cell) return element("div", { class: "card none" }, head);
    const [status, outcome, , , expected, happened] = cell;
    const rest = cell[6];
    const difference = rest.difference;
    const wrong = status !== "passed" && status !== "skipped";
    const other = (rest.rules || []).filter((name) => !caseOf(row).rules.includes(name));
    return element("div", { class: `card ${look(cell)}` }, head,
      facts([
        ["expected", wrong ? data.texts[expected] : ""],
        ["happened", data.texts[happened]],
        ["that is", wrong ? data.outcomes[outcome] : ""],
        ["counts as", wrong && status !== "failed" ? data.statuses[status] : ""],
        ["listed", rest.known],
        ["where", rest.where],
      ]),
      difference ? [line("First difference at ", element("code", {}, difference.path)),
        facts([["expected", element("code", {}, difference.expected)], ["found", element("code", {}, difference.found)],
          ["hint", difference.hint]])] : [],
      other.length ? line("About the rules ", other.map((name) => [element("code", {}, name), " "]).flat()) : null,
      block("Printed", rest.printed), block("Standard error", rest.stderr),
      rest.by_hand ? command(rest.by_hand) : []);
  }

  function showCase(row) {
    const item = caseOf(row);
    const group = data.groups[data.rows[row][1]];
    const behaviour = Object.entries(item.behaviour);
    const expected = data.cells.map((cells) => cells[row]).filter((cell) => cell && cell[4] !== undefined)
      .map((cell) => data.texts[cell[4]]).find(Boolean);
    const chips = [item.verdict, `level ${item.level}`, item.kind, item.versions.length
      ? `version ${item.versions.join(", ")}` : "", ...item.tags].filter(Boolean);
    byId("detail").replaceChildren(
      element("button", { type: "button", class: "close", onclick: cases.close }, "Close"),
      element("h3", {}, item.id),
      line(item.title),
      element("div", { class: "chips" }, chips.map((text) => element("span", { class: "chip" }, text))),
      facts([
        [EXCHANGE ? "written by" : "asked of", EXCHANGE ? group : GROUPS[group] || group],
        ["expected", EXCHANGE ? "" : expected],
        ["golden file", element("code", {}, `vectors/${item.file}`)],
        ["bytes", number(item.size)],
        ["reason", item.reason],
      ]),
      ...(behaviour.length ? [element("h4", {}, "Known implementations"), facts(behaviour)] : []),
      element("h4", {}, "What became of it"),
      ...data.columns.map((_, column) => cellElement(row, column)),
      ...(item.rules.length ? [element("h4", {}, "Rules"), ...item.rules.map(ruleElement)] : []),
    );
    byId("detail").scrollTop = 0;
  }

  // ------------------------------------------------------------------------------------------------------- summary

  function goTo(wanted) {
    filter.set(wanted);
    byId("cases").scrollIntoView();
    cases.focus();
  }

  function countButton(value, wanted, label, kind) {
    if (!value) return kind ? null : element("span", { class: "plain" }, "0");
    const text = kind ? `${number(value)} ${label}` : number(value);
    return element("button", { type: "button", class: kind ? `chip ${kind}` : "plain", "aria-label":
      `${plural(value, "case")}: ${label}`, onclick: () => goTo(wanted) }, text);
  }

  function tally(cells, keyOf) {
    const made = {};
    for (const cell of cells) {
      const key = keyOf(cell);
      made[key] = (made[key] || 0) + 1;
    }
    return made;
  }

  function runsTable() {
    const counted = data.cells.map((cells) => tally(cells, (cell) => (cell ? cell[0] : "not asked")));
    const statuses = Object.keys(data.statuses)
      .filter((name) => name === "passed" || counted.some((tallied) => tallied[name]));
    const rest = counted.some((tallied) => tallied["not asked"]);
    const heads = ["Implementation", "Conforms", ...statuses, ...(rest ? ["not asked"] : []), "What did not pass"];
    return tableOf(heads, data.columns.map((column, at) => {
      const key = String(at);
      const outcomes = tally(data.cells[at].filter((cell) => cell && cell[1] && cell[1] !== "pass"), (cell) => cell[1]);
      return element("tr", {},
        element("th", { scope: "row" }, column.name),
        element("td", {}, element("span", { class: `chip ${column.conforms ? "good" : "bad"}` },
          column.conforms ? "✓ yes" : "✗ no")),
        statuses.map((name) => element("td", { class: "number" }, countButton(counted[at][name],
          { column: key, outcome: `s:${name}` }, `${column.name}, ${name}`))),
        rest ? element("td", { class: "number" }, countButton(counted[at]["not asked"],
          { column: key, outcome: "r:not_asked" }, `${column.name}, not asked`)) : null,
        element("td", {}, Object.entries(outcomes).map(([name, value]) =>
          countButton(value, { column: key, outcome: `o:${name}` }, words(name), "bad"))));
    }));
  }

  function exchangeTable() {
    const heads = ["Written by", "Files", ...data.columns.slice(1).map((column) => `Read by ${column.name}`)];
    const kinds = { same: "good", other: "bad", refused: "bad", broken: "bad", not_asked: "none" };
    return tableOf(heads, data.groups.map((producer, group) => {
      const written = data.cells[0].filter((_, row) => data.rows[row][1] === group);
      const tallied = tally(written, readingOf);
      const labels = { same: "written", refused: "refused", broken: "broken", not_asked: "skipped" };
      return element("tr", {}, element("th", { scope: "row" }, producer),
        element("td", {}, Object.entries(labels).map(([name, label]) => countButton(tallied[name],
          { group: String(group), column: "0", outcome: `r:${name}` }, label, kinds[name]))),
        data.columns.slice(1).map((column, at) => {
          const pair = data.pairs.find((item) => item.producer === producer && item.consumer === column.name);
          return element("td", {}, Object.keys(READINGS).map((name) => countButton(pair[name],
            { group: String(group), column: String(at + 1), outcome: `r:${name}` }, READINGS[name], kinds[name])));
        }));
    }));
  }

  function tableOf(heads, rows) {
    return element("div", { class: "wide" }, element("table", {},
      element("thead", {}, element("tr", {}, heads.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, rows)));
  }

  function verdictText() {
    if (data.exit === 2) return "The smoke case failed: nothing was learnt about the implementation.";
    if (EXCHANGE) return data.exit ? "Not all agree." : "There is no disagreement that the suite does not allow.";
    const wrong = data.columns.filter((column) => !column.conforms).length;
    const all = data.columns.length;
    if (all === 1) return wrong ? "Not conformant." : "Conformant.";
    return wrong ? `${number(wrong)} of ${number(all)} implementations ${wrong === 1 ? "does" : "do"} not conform.`
      : "All conform.";
  }

  function buildSummary() {
    const differing = data.rows.filter((row) => row[2]).length;
    const notes = [...data.notes, ...data.columns.flatMap((column) =>
      column.notes.map((note) => `${column.name}: ${note}`))];
    byId("summary").append(
      element("p", { id: "verdict" }, element("span", { class: `chip ${data.exit ? "bad" : "good"}` },
        data.exit ? "✗" : "✓"), " ", verdictText()),
      line(`Conformance suite ${data.suite}, protocol ${data.protocol}: ${plural(data.rows.length, "row")}`,
        data.columns.length > 1 && differing ? [", ", element("button", { type: "button", class: "reset",
          onclick: () => goTo({ differs: true }) }, `${number(differing)} with a difference`)] : [], "."),
      ...(data.note ? [line(data.note)] : []),
      ...(data.rows.length ? [EXCHANGE ? exchangeTable() : runsTable()] : []),
      element("details", {}, element("summary", {}, "Commands"), data.columns.flatMap((column) =>
        [line(column.name), element("pre", {}, column.about.join("\n"))])),
      ...data.columns.filter((column) => column.smoke).map((column) => element("pre", {}, column.smoke.join("\n"))),
      ...(notes.length ? [element("ul", { class: "dim" }, notes.map((note) => element("li", {}, note)))] : []),
    );
  }

  buildSummary();
  if (!data.rows.length) {
    byId("cases").hidden = true;
    return;
  }
  buildTools();
  cases.build();
  refresh();
  const asked = decodeURIComponent(location.hash.replace(/^#test=/, ""));
  const there = data.ids.indexOf(asked);
  if (there >= 0) {
    cases.choose(there);
    byId("cases").scrollIntoView();
  }
})();
