"use strict";
// The bytes that the page has, sixteen a line; each knows its field. Only the lines in view are elements.
views.bytes = (() => {
  const { data, element } = ckptspec;
  const { fields, texts, chunks, left_out: leftOut } = data.layout;
  const WIDTH = 16;
  const LINE = 22; // height of a line in pixels, as in the style sheet
  const AROUND = 10; // lines that are kept ready above and below those in view

  const [OFFSET, SIZE, PATH, TYPE, KIND, VALUE, DOC, TENSOR] = [0, 1, 2, 3, 4, 5, 6, 7];

  const blocks = chunks.map(([offset, text]) => {
    const raw = atob(text);
    return { offset, raw, end: offset + raw.length };
  });

  // Lines: where each begins, in which block; between blocks one that says how much is left out (block -1).
  const lines = [];
  blocks.forEach((block, at) => {
    const before = at ? blocks[at - 1].end : 0;
    if (block.offset > before) lines.push({ offset: before, end: block.offset, block: -1 });
    for (let offset = block.offset; offset < block.end;) {
      const end = Math.min(block.end, offset - (offset % WIDTH) + WIDTH);
      lines.push({ offset, end, block: at });
      offset = end;
    }
  });
  const last = blocks.length ? blocks[blocks.length - 1].end : 0;
  if (last < data.file.size) lines.push({ offset: last, end: data.file.size, block: -1 });

  function search(items, offset, begin) {
    let low = 0;
    let high = items.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (begin(items[middle]) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  const lineAt = (offset) => search(lines, offset, (line) => line.offset);
  const endOf = (field) => field[OFFSET] + field[SIZE];

  // The field that a byte belongs to, or -1; where payloads overlap, the one that begins last.
  function fieldAt(offset) {
    if (!fields.length) return -1;
    const at = search(fields, offset, (field) => field[OFFSET]);
    for (let i = at; i >= 0 && i > at - 50; i -= 1) if (fields[i][OFFSET] <= offset && endOf(fields[i]) > offset) return i;
    return -1;
  }

  const found = data.findings.map((finding) => [finding.offset, finding.offset + Math.max(1, finding.length), finding])
    .sort((one, other) => one[0] - other[0]);
  const WIDE = 256; // bytes; a finding about more is about a whole part, and marks lines instead of bytes
  const isWide = (finding) => finding.length > WIDE;
  // Findings about a stretch, those about the fewest bytes first.
  const foundIn = (low, high) => found.filter(([begin, end]) => begin < high && end > low).map((item) => item[2])
    .sort((one, other) => one.length - other.length);

  const inner = element("div", { class: "lines", role: "presentation" });
  const box = element("div", {
    class: "hex code", tabindex: 0, role: "listbox", "aria-label": "Bytes, field by field", "aria-orientation": "horizontal",
  }, inner);
  const tip = element("div", { class: "tip", role: "tooltip", id: "bytes-tip", hidden: true });
  const status = element("span", { role: "status", class: "dim" });
  let active = -1;

  // ------------------------------------------------------------------------------------------------------------- lines

  const twoDigits = (code) => code.toString(16).padStart(2, "0");
  const visible = (char) => (char >= " " && char <= "~" ? char : ".");

  // The stretches of a line that belong to one field and are, or are not, part of a finding.
  function stretches(line, raw, base, marks) {
    const made = [];
    for (let offset = line.offset; offset < line.end; offset += 1) {
      const field = fieldAt(offset);
      const bad = marks.some((finding) => offset >= finding.offset && offset < finding.offset + Math.max(1, finding.length));
      const before = made[made.length - 1];
      const char = raw[offset - base];
      if (before && before.field === field && before.bad === bad) before.text += char;
      else made.push({ field, bad, offset, text: char });
    }
    return made;
  }

  const label = (field) => {
    const [offset, size, path, type, , value, doc] = field;
    return `${path}${value ? ` = ${value}` : ""}, ${texts[type]}, ${shown.bytes(size)} at ${offset}. ${texts[doc]}`;
  };

  function lineElement(line, at) {
    const made = element("div", { class: "line", role: "presentation" });
    made.style.top = `${at * LINE}px`;
    made.dataset.line = at;
    if (line.block < 0) {
      const field = fieldAt(line.offset);
      const of = field < 0 ? "" : ` of ${fields[field][PATH]}`;
      made.append(element("span", { class: "offset" }, line.offset.toString(16).padStart(8, "0")),
        element("span", { class: "rest" }, `${shown.bytes(line.end - line.offset)} more${of}`));
      return made;
    }
    const block = blocks[line.block];
    const cells = element("span", { class: "cells", role: "presentation" });
    const signs = element("span", { class: "signs", "aria-hidden": "true" });
    const lead = line.offset % WIDTH;
    if (lead) { cells.append(" ".repeat(3 * lead)); signs.append(" ".repeat(lead)); }
    const findings = foundIn(line.offset, line.end);
    if (findings.some(isWide)) made.classList.add("marked");
    const narrow = findings.filter((finding) => !isWide(finding));
    for (const { field, bad, offset, text } of stretches(line, block.raw, block.offset, narrow)) {
      const kind = field < 0 ? "unknown" : texts[fields[field][KIND]];
      const classes = `b k-${kind} ${field % 2 ? "odd" : "even"}${bad ? " bad-byte" : ""}${field === active && field >= 0 ? " active" : ""}`;
      const first = field >= 0 && fields[field][OFFSET] === offset;
      cells.append(element("span", {
        class: classes, "data-field": field, role: first ? "option" : "presentation", id: first ? `field-${field}` : null,
        "aria-selected": first ? String(field === active) : null, "aria-label": first ? label(fields[field]) : null,
      }, [...text].map((char) => twoDigits(char.charCodeAt(0))).join(" ")), " ");
      signs.append(element("span", { class: classes, "data-field": field }, [...text].map(visible).join("")));
    }
    made.append(element("span", { class: "offset" }, (line.offset - lead).toString(16).padStart(8, "0")), cells, signs);
    return made;
  }

  let range = [-1, -1];
  function show(force) {
    const first = Math.max(0, Math.floor(box.scrollTop / LINE) - AROUND);
    const end = Math.min(lines.length, Math.ceil((box.scrollTop + box.clientHeight) / LINE) + AROUND);
    if (!force && range[0] === first && range[1] === end) return;
    range = [first, end];
    inner.replaceChildren(...lines.slice(first, end).map((line, i) => lineElement(line, first + i)));
    if (active >= 0 && document.getElementById(`field-${active}`)) box.setAttribute("aria-activedescendant", `field-${active}`);
    else box.removeAttribute("aria-activedescendant");
  }

  function reveal(offset, centred) {
    const top = lineAt(offset) * LINE;
    if (centred || top < box.scrollTop || top + LINE > box.scrollTop + box.clientHeight) {
      box.scrollTop = centred ? top - box.clientHeight / 3 : top < box.scrollTop ? top : top + LINE - box.clientHeight;
    }
  }

  // ----------------------------------------------------------------------------------------------------------- tooltip

  function describe(field) {
    const [offset, size, path, type, , value, doc, tensor] = field;
    const findings = foundIn(offset, offset + size);
    return [
      element("p", {}, element("strong", {}, path), " ", element("span", { class: "dim" }, texts[type])),
      value ? element("p", { class: "value" }, value) : null,
      texts[doc] ? element("p", {}, ckptspec.prose(texts[doc])) : null,
      tensor >= 0 ? element("p", { class: "dim" }, `tensor ${data.tensors.rows[tensor][2]}`) : null,
      element("p", { class: "dim" }, `bytes ${shown.number(offset)} to ${shown.number(offset + size - 1)} (${shown.hex(offset)}), ${shown.bytes(size)}`),
      ...findings.slice(0, 3).map((finding) => element("p", {}, element("span", { class: `chip ${views.severity[finding.severity]}` }, finding.rule),
        ` found ${finding.found}, expected ${finding.expected}`)),
    ].filter(Boolean);
  }

  function tipAt(field, anchor) {
    if (field < 0 || !anchor) { tip.hidden = true; return; }
    tip.replaceChildren(...describe(fields[field]));
    tip.hidden = false;
    const place = anchor.getBoundingClientRect();
    const frame = box.parentElement.getBoundingClientRect();
    const left = Math.min(Math.max(0, place.left - frame.left), Math.max(0, frame.width - tip.offsetWidth));
    const below = place.bottom - frame.top + 6;
    const fits = place.bottom + tip.offsetHeight + 8 < window.innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${fits ? below : Math.max(0, place.top - frame.top - tip.offsetHeight - 6)}px`;
  }

  // What stands for a field on the page: its bytes, or the line that says that they are left out.
  const anchorOf = (field) => (field < 0 ? null : inner.querySelector(`[data-field="${field}"]`)
    || inner.querySelector(`[data-line="${lineAt(fields[field][OFFSET])}"]`));

  function activate(field, centred) {
    active = Math.min(Math.max(field, 0), fields.length - 1);
    if (active < 0) return;
    reveal(fields[active][OFFSET], centred);
    show(true);
    tipAt(active, anchorOf(active));
  }

  function vertical(by) {
    if (active < 0) { activate(0); return; }
    const at = Math.min(Math.max(0, lineAt(fields[active][OFFSET]) + by), lines.length - 1);
    const field = fieldAt(lines[at].offset);
    if (field >= 0 && field !== active) activate(field);
    else activate(active + Math.sign(by));
  }

  function press(event) {
    const page = Math.max(1, Math.floor(box.clientHeight / LINE) - 1);
    const actions = {
      ArrowRight: () => activate(active + 1), ArrowLeft: () => activate(active - 1),
      ArrowDown: () => vertical(1), ArrowUp: () => vertical(-1), PageDown: () => vertical(page), PageUp: () => vertical(-page),
      Home: () => activate(0), End: () => activate(fields.length - 1),
      Escape: () => { tip.hidden = true; },
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  box.addEventListener("scroll", () => show(false), { passive: true });
  box.addEventListener("keydown", press);
  // Where nothing is pointed at, the field that the keys have chosen is explained.
  function tipOfKeys() {
    const field = document.activeElement === box ? active : -1;
    tipAt(field, anchorOf(field));
  }

  box.addEventListener("focus", tipOfKeys);
  box.addEventListener("blur", () => { tip.hidden = true; });
  // A pointer that rests where the page has moved points at nothing.
  let pointer = "";
  const placeOf = (event) => `${event.screenX} ${event.screenY}`;
  document.addEventListener("mousemove", (event) => { pointer = placeOf(event); }, { passive: true });
  box.addEventListener("mouseover", (event) => {
    if (pointer === placeOf(event)) return;
    const target = event.target.closest("[data-field]");
    if (target && Number(target.dataset.field) >= 0) tipAt(Number(target.dataset.field), target);
    else tipOfKeys();
  });
  box.addEventListener("mouseleave", tipOfKeys);
  box.addEventListener("click", (event) => {
    const target = event.target.closest("[data-field]");
    if (target && Number(target.dataset.field) >= 0) activate(Number(target.dataset.field));
  });

  // Where to: an offset, decimal or with 0x, or a path or the beginning of one.
  function goTo(text) {
    const wanted = text.trim();
    if (/^(0x[0-9a-f]+|\d+)$/i.test(wanted)) {
      const offset = Number(wanted);
      if (offset >= data.file.size) { status.textContent = "The file has no such byte."; return; }
      const field = fieldAt(offset);
      const missing = lines[lineAt(offset)].block < 0;
      status.textContent = missing ? "This byte is not in the page." : "";
      if (field >= 0) activate(field, true);
      reveal(offset, true);
      return;
    }
    const at = wanted ? fields.findIndex((field) => field[PATH].startsWith(wanted)) : -1;
    status.textContent = at < 0 ? "No field begins so." : "";
    if (at >= 0) { activate(at, true); box.focus({ preventScroll: true }); }
  }

  const input = element("input", { id: "bytes-go", type: "search", placeholder: "offset or field", autocomplete: "off", spellcheck: "false",
    onkeydown: (event) => { if (event.key === "Enter") goTo(input.value); } });
  inner.style.height = `${lines.length * LINE}px`;
  document.getElementById("bytes-view").append(
    element("div", { class: "tools" }, element("label", { for: "bytes-go" }, "Go to"), input,
      element("button", { type: "button", onclick: () => goTo(input.value) }, "Go"), status),
    element("div", { class: "hex-frame" }, box, tip),
    leftOut ? element("p", { class: "dim" }, `${shown.number(leftOut)} more fields and payloads are not in the page.`) : "",
  );

  return {
    start: () => show(true),
    fieldAt,
    show(offset) {
      document.getElementById("bytes").scrollIntoView();
      const field = fieldAt(offset);
      if (field >= 0) activate(field, true);
      else { reveal(offset, true); show(true); }
      box.focus({ preventScroll: true });
      if (field >= 0) tipAt(field, anchorOf(field));
    },
  };
})();
