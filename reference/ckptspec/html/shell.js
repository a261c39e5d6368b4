"use strict";
// What all pages share: their data, elements made without markup, and the choice between light and dark.
const ckptspec = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  function fill(made, properties, children) {
    for (const [name, value] of Object.entries(properties || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child !== null && child !== undefined && child !== "") made.append(child); // text stays text, whatever is in it
    }
    return made;
  }

  // element("td", {class: "number", onclick: f}, "text", other): attributes, listeners, children.
  const element = (name, properties, ...children) => fill(document.createElement(name), properties, children);
  const svg = (name, properties, ...children) => fill(document.createElementNS(SVG, name), properties, children);

  function stored(value) {
    try { // a browser may refuse to remember
      if (value !== undefined) localStorage.setItem("ckptspec-theme", value);
      return localStorage.getItem("ckptspec-theme");
    } catch {
      return null;
    }
  }

  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => document.documentElement.dataset.theme;
  const isDark = () => (chosen() ? chosen() === "dark" : prefersDark.matches);

  function showTheme() {
    const button = document.getElementById("theme");
    button.hidden = false;
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    document.dispatchEvent(new Event("ckptspec-theme")); // for what is drawn in colours of its own
  }

  const before = stored();
  if (before === "dark" || before === "light") document.documentElement.dataset.theme = before;
  document.getElementById("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    stored(chosen());
    showTheme();
  });
  prefersDark.addEventListener("change", showTheme);
  showTheme();

  const data = JSON.parse(document.getElementById("data").textContent);
  return Object.freeze({ data, element, svg, isDark });
})();
