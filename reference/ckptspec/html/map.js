"use strict";
// The map of the file: a strip to scale, a magnified strip, and the list of parts.
const views = { severity: { reject: "bad", canonical: "warn", note: "note" } };

const shown = {
  number: (value) => (typeof value === "number" ? value.toLocaleString("en-US") : value === null ? "?" : String(value)),
  bytes: (size) => `${shown.number(size)} byte${size === 1 ? "" : "s"}`,
  hex: (offset) => `0x${offset.toString(16)}`,
  short(size) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (size >= 1024 && unit < units.length - 1) { size /= 1024; unit += 1; }
    return `${unit ? size.toFixed(size < 10 ? 2 : 1) : Math.round(size)} ${units[unit]}`;
  },
};

views.map = (() => {
  const { data, element } = ckptspec;
  const { parts, segments } = data.layout;
  const total = data.file.size;
  const number = segments.length / 4;
  const start = (at) => segments[4 * at];
  const size = (at) => segments[4 * at + 1];
  const end = (at) => start(at) + size(at);
  const part = (at) => segments[4 * at + 2];
  const tensor = (at) => segments[4 * at + 3];
  const SMALLEST = 16; // bytes that are still magnified
  const MARKS = 11; // height of the band of findings, in pixels

  let from = 0;
  let to = Math.max(total, 1);
  let selected = -1;

  const strip = (label, height) => element("canvas", { class: "strip", height, role: "img", "aria-label": label });
  const whole = strip("The whole file, to scale", 34);
  const close = element("canvas", {
    class: "strip close", tabindex: 0, role: "application", "aria-describedby": "map-details",
    "aria-label": "Magnified part of the file. Left and right: part to part; plus and minus: zoom; 0: whole file",
  });
  const axis = element("div", { class: "axis", "aria-hidden": "true" }, element("span"), element("span"), element("span"));
  const details = element("div", { id: "map-details", class: "details", "aria-live": "polite" });
  const probe = element("span", { hidden: true });
  const button = (label, text, action) => element("button", { type: "button", "aria-label": label, onclick: action }, text);

  // Index of the segment that holds an offset, or of the last one before it.
  function at(offset) {
    let low = 0;
    let high = number - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (start(middle) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  function colours() {
    const names = ["record", "index", "data", "data-2", "padding", "hole", "bad", "warn", "note", "fg", "edge"];
    return Object.fromEntries(names.map((name) => {
      probe.style.color = `var(--map-${name}, var(--${name}))`;
      return [name, getComputedStyle(probe).color];
    }));
  }

  function draw(canvas, low, high, paint) {
    const width = canvas.clientWidth;
    const height = canvas === whole ? 34 : 72;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const place = (offset) => ((offset - low) / (high - low)) * width;
    for (let i = number ? at(low) : 0; i < number && start(i) < high; i += 1) {
      const kind = parts[part(i)][1];
      const left = Math.max(0, place(start(i)));
      const right = Math.min(width, place(end(i)));
      if (right < 0) continue;
      pen.fillStyle = paint[kind === "data" && i % 2 ? "data-2" : kind];
      // What is not a payload is never thinner than a line.
      const least = kind === "data" ? 0.3 : 1;
      pen.fillRect(left, MARKS, Math.max(least, right - left - (right - left > 4 ? 1 : 0)), height - MARKS);
    }
    if (canvas === close) drawFields(pen, low, high, place, height, paint);
    if (selected >= 0 && end(selected) > low && start(selected) < high) {
      pen.strokeStyle = paint.fg;
      pen.lineWidth = 2;
      const left = Math.max(0, place(start(selected)));
      pen.strokeRect(left + 1, MARKS + 1, Math.max(2, Math.min(width, place(end(selected))) - left - 2), height - MARKS - 2);
    }
    for (const finding of [...data.findings].reverse()) { // those that count most on top
      if (finding.offset < low || finding.offset > high) continue;
      const x = Math.min(width - 4, Math.max(4, place(finding.offset)));
      pen.fillStyle = paint[views.severity[finding.severity]];
      pen.beginPath();
      pen.moveTo(x - 5, 0);
      pen.lineTo(x + 5, 0);
      pen.lineTo(x, MARKS - 1);
      pen.fill();
    }
    if (canvas === whole && (from > 0 || to < total)) {
      pen.strokeStyle = paint.fg;
      pen.lineWidth = 1.5;
      pen.strokeRect(Math.max(1, place(from) - 1), 1, Math.min(width - 2, Math.max(3, place(to) - place(from) + 2)), height - 2);
    }
  }

  // Where fields are wide enough to be told apart, a line stands before each.
  function drawFields(pen, low, high, place, height, paint) {
    const visible = data.layout.fields.filter((field) => field[0] > low && field[0] < high);
    if (visible.length > close.clientWidth / 6) return;
    pen.fillStyle = paint.edge;
    for (const field of visible) pen.fillRect(place(field[0]) - 0.5, MARKS, 1, height - MARKS);
  }

  let waiting = false;
  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const paint = colours();
      draw(whole, 0, Math.max(total, 1), paint);
      draw(close, from, to, paint);
      const texts = [from, (from + to) / 2, to].map((offset) => shown.number(Math.round(offset)));
      [...axis.children].forEach((span, i) => { span.textContent = texts[i]; });
    });
  }

  function zoom(low, high) {
    const least = Math.min(SMALLEST, Math.max(total, 1));
    const width = Math.min(Math.max(high - low, least), Math.max(total, 1));
    const middle = (low + high) / 2;
    from = Math.min(Math.max(0, middle - width / 2), Math.max(total, 1) - width);
    to = from + width;
    redraw();
  }

  function scale(factor, around) {
    const centre = around === undefined ? (from + to) / 2 : around;
    zoom(centre - (centre - from) * factor, centre + (to - centre) * factor);
  }

  function describe(offset) {
    if (selected < 0) {
      details.replaceChildren(element("p", { class: "dim" }, number ? "Nothing is selected." : "The file is empty."));
      return;
    }
    const [label, kind] = parts[part(selected)];
    const row = tensor(selected);
    const name = row < 0 ? null : data.tensors.rows[row][2];
    const about = data.findings.filter((finding) => (
      finding.offset < end(selected) && finding.offset + Math.max(1, finding.length) > start(selected)));
    details.replaceChildren(
      element("p", {},
        element("span", { class: `swatch ${kind}` }), " ", element("strong", {}, name === null ? label : name),
        name === null ? "" : ` in ${label}`,
        `: bytes ${shown.number(start(selected))} to ${shown.number(end(selected) - 1)} (${shown.hex(start(selected))}), `,
        shown.bytes(size(selected))),
      fieldLine(offset === undefined ? start(selected) : offset),
      element("p", { class: "tools" },
        button("Magnify this part", "Magnify", () => showRange(start(selected), size(selected))),
        button("Show the bytes of this part", "Bytes", () => views.bytes.show(offset === undefined ? start(selected) : offset)),
        row < 0 ? null : button("Show this tensor in the table", "Tensor", () => views.tensors.show(row))),
      ...about.slice(0, 5).map((finding) => element("p", {},
        element("span", { class: `chip ${views.severity[finding.severity]}` }, finding.rule),
        ` at byte ${shown.number(finding.offset)}: found ${finding.found}`)),
    );
  }

  function fieldLine(offset) {
    const at = views.bytes ? views.bytes.fieldAt(offset) : -1;
    if (at < 0) return null;
    const [first, length, path, , , value, doc] = data.layout.fields[at];
    return element("p", {}, element("code", {}, path), value ? ` ${value}` : "", length && first !== start(selected) ? ` at byte ${shown.number(first)}` : "",
      data.layout.texts[doc] ? element("span", { class: "dim" }, ` ${data.layout.texts[doc]}`) : null);
  }

  function select(index, offset) {
    selected = Math.min(Math.max(index, 0), number - 1);
    if (selected < 0) return;
    const width = to - from;
    if (end(selected) <= from || start(selected) >= to) {
      zoom(start(selected) + size(selected) / 2 - width / 2, start(selected) + size(selected) / 2 + width / 2);
    }
    describe(offset);
    redraw();
  }

  function showRange(offset, length) {
    const margin = Math.max(length / 8, 2);
    selected = number ? at(offset) : -1;
    zoom(offset - margin, offset + length + margin);
    describe(offset);
  }

  function press(event) {
    const width = to - from;
    const actions = {
      ArrowRight: () => select(selected < 0 ? at(from) : selected + 1),
      ArrowLeft: () => select(selected < 0 ? at(to) : selected - 1),
      Home: () => select(0),
      End: () => select(number - 1),
      PageDown: () => zoom(from + width, to + width),
      PageUp: () => zoom(from - width, to - width),
      "+": () => scale(0.5, selected >= 0 ? start(selected) + size(selected) / 2 : undefined),
      "=": () => scale(0.5),
      "-": () => scale(2),
      0: () => zoom(0, total),
      Enter: () => { if (selected >= 0) views.bytes.show(start(selected)); },
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : actions[event.key];
    if (!action || !number) return;
    event.preventDefault();
    action();
  }

  // A click on a strip selects what is there; where much lies on one pixel, what is not a payload goes first.
  function pick(canvas, low, high, x) {
    const width = canvas.clientWidth;
    const offset = (pixel) => low + (pixel / width) * (high - low);
    const first = at(offset(x - 1.5));
    const last = at(offset(x + 1.5));
    for (let i = first; i <= Math.min(last, first + 1000); i += 1) {
      if (parts[part(i)][1] !== "data" && last > first) return i;
    }
    return at(offset(x));
  }

  let dragged = null;
  close.addEventListener("pointerdown", (event) => {
    dragged = { x: event.offsetX, from, to, moved: false };
    close.setPointerCapture(event.pointerId);
  });
  close.addEventListener("pointermove", (event) => {
    if (dragged === null) {
      if (number) {
        const i = at(from + (event.offsetX / close.clientWidth) * (to - from));
        const row = tensor(i);
        close.title = `${row < 0 ? parts[part(i)][0] : data.tensors.rows[row][2]}, ${shown.bytes(size(i))}`;
      }
      return;
    }
    const moved = ((dragged.x - event.offsetX) / close.clientWidth) * (dragged.to - dragged.from);
    if (Math.abs(dragged.x - event.offsetX) > 4) dragged.moved = true;
    if (dragged.moved) zoom(dragged.from + moved, dragged.to + moved);
  });
  close.addEventListener("pointerup", (event) => {
    if (dragged && !dragged.moved && number) {
      const index = pick(close, from, to, event.offsetX);
      const offset = Math.floor(from + (event.offsetX / close.clientWidth) * (to - from));
      select(index, offset >= start(index) && offset < end(index) ? offset : undefined);
    }
    dragged = null;
  });
  close.addEventListener("dblclick", (event) => {
    scale(0.25, from + (event.offsetX / close.clientWidth) * (to - from));
  });
  close.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    scale(event.deltaY < 0 ? 0.8 : 1.25, from + (event.offsetX / close.clientWidth) * (to - from));
  }, { passive: false });
  close.addEventListener("keydown", press);
  whole.addEventListener("click", (event) => {
    if (!number) return;
    const index = pick(whole, 0, total, event.offsetX);
    const width = to - from < total ? to - from : total / 20;
    const middle = (event.offsetX / whole.clientWidth) * total;
    const near = start(index) + size(index) / 2;
    const centre = size(index) < total / whole.clientWidth ? near : middle;
    selected = index;
    zoom(centre - width / 2, centre + width / 2);
    describe();
  });

  function firstOf(index) {
    for (let i = 0; i < number; i += 1) if (part(i) === index) return i;
    return 0;
  }

  function lastOf(index) {
    for (let i = number - 1; i >= 0; i -= 1) if (part(i) === index) return i;
    return 0;
  }

  function showPart(index) {
    const first = firstOf(index);
    showRange(start(first), end(lastOf(index)) - start(first));
    selected = first;
    describe();
  }

  const list = element("ul", { class: "parts", "aria-label": "Parts of the file" }, parts.map(([label, kind, bytes], i) => (
    element("li", {}, element("button", { type: "button", onclick: () => showPart(i) },
      element("span", { class: `swatch ${kind}` }), ` ${label} `,
      element("span", { class: "dim" }, `${shown.short(bytes)}${total ? ` · ${(100 * bytes / total).toPrecision(2)}%` : ""}`)))
  )));

  document.getElementById("map-view").append(
    whole,
    element("div", { class: "tools" },
      button("Magnify", "+", () => scale(0.5)), button("Show more", "\u2212", () => scale(2)),
      button("Show the whole file", "Whole file", () => zoom(0, total))),
    close, axis, details, list, probe,
  );
  describe();
  new ResizeObserver(redraw).observe(document.getElementById("map-view"));
  document.addEventListener("ckptspec-theme", redraw);
  redraw();

  return {
    showRange(offset, length) {
      showRange(offset, length);
      document.getElementById("map").scrollIntoView();
      close.focus({ preventScroll: true });
    },
    window: () => ({ from, to, selected }),
  };
})();
