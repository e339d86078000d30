"use strict";
// Sorting by the buttons in the headers, searching groups, and opening the group that a link points to.

const NUMBER = /^[^\d+-]*([+-]?[\d,]*\.?\d+)/;

function text(cell) {
  return cell.textContent.trim();
}

// A number where the column holds numbers; what is missing stands last whichever way it is sorted.
function value(cell, numeric) {
  const words = text(cell);
  if (words === "–" || words === "") return null;
  if (!numeric) return words.toLowerCase();
  const found = NUMBER.exec(words);
  return found ? Number(found[1].replaceAll(",", "")) : null;
}

function order(a, b) {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function sortable(table, sorted) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    const numeric = header.classList.contains("n");
    button.addEventListener("click", () => {
      const before = header.getAttribute("aria-sort");
      // Numbers begin with the largest: that is what one looks for.
      const way = before ? (before === "ascending" ? "descending" : "ascending") : numeric ? "descending" : "ascending";
      headers.forEach((each) => each.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", way);
      const sign = way === "ascending" ? 1 : -1;
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [value(row.cells[column], numeric), row]);
      rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * order(a, b)));
      body.append(...rows.map(([, row]) => row));
      if (sorted) sorted(text(header), way);
    });
  });
}

function searchable(table) {
  const search = document.getElementById("search");
  const matches = document.getElementById("matches");
  const more = document.getElementById("more");
  const cluster = document.getElementById("cluster");
  const step = Number(table.dataset.shown);
  const total = Number(table.dataset.total);
  const numbers = table.tHead.querySelectorAll("th.n").length;
  const words = new Map([...table.tBodies[0].rows].map((row) => {
    const cells = [...row.cells];
    return [row, cells.slice(0, -numbers).map(text).join(" ").toLowerCase()];
  }));
  let limit = step;
  let said = "";

  function show() {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const row of table.tBodies[0].rows) {
      const matching = wanted.every((word) => words.get(row).includes(word)) &&
        !(cluster && cluster.value && text(row.cells[1]) !== cluster.value);
      row.hidden = !(matching && found < limit);
      found += matching;
    }
    const shown = Math.min(found, limit);
    const groups = `${total.toLocaleString("en")} ${total === 1 ? "group" : "groups"}`;
    const what = wanted.length || (cluster && cluster.value) ? `${found.toLocaleString("en")} of ${groups} match` : groups;
    matches.textContent = `${what}; ${shown.toLocaleString("en")} shown${said}.`;
    more.hidden = shown === found;
  }

  for (const [label, grow] of [[`Show ${2 * step} more`, () => limit + 2 * step], ["Show all", () => Infinity]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", () => {
      limit = grow();
      show();
    });
    more.append(button);
  }
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      limit = step;
      show();
    }, 120);
  });
  if (cluster) {
    cluster.addEventListener("change", () => {
      limit = step;
      show();
    });
    rollUp(cluster);
  }
  sortable(table, (name, way) => {
    said = `, sorted by ${name}, ${way}`;
    show();
  });
  show();
}

// From the line of a cluster to its groups.
function rollUp(cluster) {
  const table = document.getElementById("clusters");
  if (!table) return;
  for (const row of table.tBodies[0].rows) {
    const name = text(row.cells[0]);
    if (![...cluster.options].some((option) => option.text === name)) continue;
    const link = document.createElement("a");
    link.href = "#worst";
    link.textContent = name;
    link.addEventListener("click", () => {
      cluster.value = name;
      cluster.dispatchEvent(new Event("change"));
    });
    row.cells[0].replaceChildren(link);
  }
}

function open() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") {
    target.open = true;
    target.querySelector("summary").focus({ preventScroll: true });
    target.scrollIntoView();
  }
}

// What is wider than the page can be scrolled by keyboard, and says what it is.
function reachable() {
  for (const box of document.querySelectorAll(".scroll")) {
    const wide = box.scrollWidth > box.clientWidth;
    for (const [name, is] of [["tabindex", "0"], ["role", "region"], ["aria-label", box.dataset.label]]) {
      if (wide) box.setAttribute(name, is);
      else box.removeAttribute(name);
    }
  }
}

for (const table of document.querySelectorAll("table.sortable")) {
  if (table.id === "groups") searchable(table);
  else sortable(table);
}
addEventListener("hashchange", open);
addEventListener("resize", reachable);
document.addEventListener("toggle", reachable, true);
open();
reachable();
