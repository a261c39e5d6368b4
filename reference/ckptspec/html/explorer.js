"use strict";
// What pages of many rows share: filters, a table of which only the rows in sight exist, and the chosen row beside it.
const explorer = (() => {
  const { element } = ckptspec;
  const ROW = 30; // pixels, as the style sheet has it
  const SPARE = 12; // rows that exist above and below those in sight
  const HIGHEST = 15_000_000; // pixels: a browser draws nothing that is much higher
  const PAGE_KEYS = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity };
  const byId = (id) => document.getElementById(id);
  const number = (value) => value.toLocaleString("en");
  const plural = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
  const line = (...children) => element("p", {}, ...children);
  const facts = (pairs) => element("dl", {}, pairs.filter(([, value]) => value)
    .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));

  // Filters by name: `all` has the values with which all rows fit, `refresh` is called when one has changed.
  function filters(all, refresh) {
    const state = { ...all };
    const controls = {};

    function change(name, value) {
      state[name] = value;
      refresh();
    }

    function select(name, label, options) {
      controls[name] = element("select", { id: `f-${name}`, onchange: (event) => change(name, event.target.value) },
        options.map(([value, text]) => element("option", { value }, text)));
      return element("label", {}, label, controls[name]);
    }

    function input(name, label, options, kind) {
      const list = `l-${name}`;
      controls[name] = element("input", { id: `f-${name}`, list: options && list, autocomplete: "off", spellcheck: "false",
        oninput: (event) => change(name, event.target.value) });
      const known = options && element("datalist", { id: list }, options.map((value) => element("option", { value })));
      return element("label", { class: kind }, label, controls[name], known);
    }

    function check(name, label) {
      controls[name] = element("input", { type: "checkbox", id: `f-${name}`,
        onchange: (event) => change(name, event.target.checked) });
      return element("label", { class: "check" }, controls[name], label);
    }

    function set(wanted) {
      for (const [name, control] of Object.entries(controls)) {
        state[name] = wanted[name] ?? all[name];
        control[control.type === "checkbox" ? "checked" : "value"] = state[name];
      }
      refresh();
    }

    const reset = () => element("button", { type: "button", id: "reset", onclick: () => set({}) }, "Reset");
    return { state, select, input, check, reset, set };
  }

  // The table in #grid. `label` names it, `columns` and `heads` are elements; `nothing` is said where no row fits.
  // `idOf` gives the id of a row's element, `cells` its content; `chose` and `closed` are told what is shown beside it.
  function table({ label, columns, heads, nothing, idOf, cells, chose, closed }) {
    const grid = byId("grid");
    const above = element("td", { colspan: heads.length }), below = element("td", { colspan: heads.length });
    const body = element("tbody", {});
    const made = element("table", { role: "grid", "aria-label": label, "aria-colcount": heads.length },
      element("colgroup", {}, columns), element("thead", {}, element("tr", { "aria-rowindex": 1 }, heads)), body);
    let visible = []; // the rows that fit, in order
    let chosen = null;
    let drawn = "";

    // Where the rows together are higher than a browser can draw, a pixel of scrolling stands for several of the table.
    const height = () => Math.min(visible.length * ROW, HIGHEST);
    const scale = () => (visible.length * ROW > HIGHEST
      ? (visible.length * ROW - grid.clientHeight) / (HIGHEST - grid.clientHeight) : 1);

    function rowElement(place) {
      const row = visible[place];
      return element("tr", { class: "case", id: idOf(row, row === chosen), "aria-rowindex": place + 2,
        "aria-selected": String(row === chosen), onclick: () => choose(row, true) }, cells(row));
    }

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
      const none = visible.length ? [] : [element("tr", { class: "gap" },
        element("td", { class: "nothing", colspan: heads.length }, nothing))];
      body.replaceChildren(element("tr", { class: "gap", "aria-hidden": "true" }, above), ...rows, ...none,
        element("tr", { class: "gap", "aria-hidden": "true" }, below));
      made.setAttribute("aria-rowcount", visible.length + 1);
    }

    function reveal(row) {
      const place = visible.indexOf(row);
      if (place < 0) return;
      const top = place * ROW, room = grid.clientHeight - ROW; // the heads stand in front of the first row
      const at = grid.scrollTop * scale();
      if (top < at) grid.scrollTop = top / scale();
      else if (top + ROW > at + room) grid.scrollTop = (top + ROW - room) / scale();
    }

    function show(rows) {
      visible = rows;
      grid.scrollTop = 0;
      if (chosen !== null && !rows.includes(chosen)) putAway();
      draw(true);
      if (chosen !== null) reveal(chosen);
    }

    function choose(row, clicked) {
      chosen = row;
      byId("split").classList.add("open");
      reveal(row);
      draw(true);
      grid.setAttribute("aria-activedescendant", idOf(row, true));
      chose(row);
      const under = byId("detail").offsetTop > grid.offsetTop + grid.offsetHeight / 2; // where the window is narrow
      if (clicked && under) byId("detail").scrollIntoView();
    }

    function putAway() {
      chosen = null;
      byId("split").classList.remove("open");
      byId("detail").replaceChildren();
      grid.removeAttribute("aria-activedescendant");
      closed();
    }

    function close() {
      putAway();
      draw(true);
      focus();
    }

    function focus() {
      grid.focus({ preventScroll: true });
    }

    function onKey(event) {
      if (event.key === "Escape" && chosen !== null) close();
      const step = PAGE_KEYS[event.key];
      if (step === undefined || !visible.length || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target !== grid) return; // a button among the heads
      event.preventDefault();
      const at = visible.indexOf(chosen);
      const next = at < 0 && Number.isFinite(step) ? 0 : Math.max(0, Math.min(visible.length - 1, Math.max(at, 0) + step));
      choose(visible[next]);
    }

    function build() {
      grid.append(made);
      grid.addEventListener("scroll", () => draw(false), { passive: true });
      grid.addEventListener("keydown", onKey);
      addEventListener("resize", () => draw(false));
    }

    return { made, build, show, choose, close, focus };
  }

  return { byId, number, plural, line, facts, filters, table };
})();
