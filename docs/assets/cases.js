// Filters a page of the case catalogue; without it, the page shows all cases.
(function () {
  "use strict";
  const form = document.querySelector("form.ck-filter");
  if (!form) return;
  const items = Array.from(document.querySelectorAll("ul.ck-cases > li"));
  const output = form.querySelector("output");

  function matches(item, words, verdict, tag, rule) {
    return words.every((word) => item.dataset.words.includes(word)) &&
      (!verdict || item.dataset.verdict === verdict) &&
      (!tag || item.dataset.tags.split(" ").includes(tag)) &&
      (!rule || item.dataset.rules.split(" ").includes(rule));
  }

  // A heading is hidden if none of what follows it, up to the next of its rank, is shown.
  function hideEmptyParts() {
    const shown = { H2: false, H3: false };
    const parts = Array.from(document.querySelectorAll(".md-content h2, .md-content h3, ul.ck-cases")).reverse();
    let list = false;
    for (const part of parts) {
      if (part.tagName === "UL") {
        list = Array.from(part.children).some((item) => !item.hidden);
        part.hidden = !list;
        shown.H2 = shown.H2 || list;
      } else if (part.tagName === "H3") {
        part.hidden = !list;
        let next = part.nextElementSibling;
        if (next && next.tagName === "P") next.hidden = !list;
        list = false;
      } else {
        part.hidden = !shown.H2;
        shown.H2 = false;
      }
    }
  }

  function apply() {
    const words = form.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let number = 0;
    for (const item of items) {
      item.hidden = !matches(item, words, form.verdict.value, form.tag.value, form.rule.value);
      number += item.hidden ? 0 : 1;
    }
    hideEmptyParts();
    output.textContent = number.toLocaleString("en") + " of " + items.length.toLocaleString("en") + " cases";
  }

  function fromAddress() {
    const asked = new URLSearchParams(location.search);
    for (const name of ["words", "verdict", "tag", "rule"]) {
      if (asked.has(name)) form.elements[name].value = asked.get(name);
    }
  }

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", apply);
  fromAddress();
  apply();
})();
