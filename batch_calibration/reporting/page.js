"use strict";
// Sorts, filters and saves tables; without it the page has all its words, tables and figures.

const make = (name, text, props = {}) =>
  Object.assign(document.createElement(name), { textContent: text }, props);

// ---- tables: a button in each header sorts, a field filters rows; sums stay below.

// What stands behind the number, such as its interval, is left out; NaN where there is none.
const number = (text) => parseFloat(text.replaceAll(",", ""));

function sortRows(table, column, sign) {
  const body = table.tBodies[0];
  const key = (row) => row.cells[column].textContent;
  const rows = [...body.rows];
  const filled = rows.map(key).filter((text) => text.trim() && text.trim() !== "-");
  const numeric = filled.every((text) => !Number.isNaN(number(text)));
  // What is missing stands last, whichever way the rows are sorted.
  const compare = (a, b) => {
    if (!numeric) return sign * key(a).localeCompare(key(b), "en", { numeric: true });
    const [x, y] = [number(key(a)), number(key(b))];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return sign * (x - y);
  };
  rows.sort(compare).forEach((row) => body.append(row));
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = make("button", head.textContent, { type: "button" });
    button.addEventListener("click", () => {
      // Numbers are first shown from the largest on, names from A on.
      const before = head.getAttribute("aria-sort");
      const first = column ? "descending" : "ascending";
      const second = column ? "ascending" : "descending";
      const next = before === first ? second : first;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", next);
      sortRows(table, column, next === "ascending" ? 1 : -1);
    });
    head.replaceChildren(button);
  });
}

function filterable(region) {
  const rows = [...region.querySelectorAll("tbody tr")];
  if (rows.length < 6) return;
  const field = make("input", "", { type: "search", placeholder: "Filter rows" });
  field.setAttribute("aria-label", `Filter rows of: ${region.getAttribute("aria-label")}`);
  const count = make("span", "");
  count.setAttribute("role", "status");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (row) => words.every((word) => row.textContent.toLowerCase().includes(word));
    rows.forEach((row) => { row.hidden = !fits(row); });
    const kept = rows.filter((row) => !row.hidden).length;
    count.textContent = words.length ? `${kept} of ${rows.length} rows` : "";
  });
  const tools = make("div", "", { className: "tools" });
  tools.append(field, count);
  region.before(tools);
}

// A cell of CSV; a quote in it is doubled.
const csvCell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

// A link below the table that saves its rows, in the order in which they stand, as CSV.
function savable(region) {
  const link = make("a", `${region.dataset.file}.csv`, { className: "csv", href: "#" });
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const lines = [...region.querySelectorAll("tr")]
      .map((row) => [...row.cells].map((cell) => csvCell(cell.textContent)).join(","));
    const file = new Blob([`${lines.join("\n")}\n`], { type: "text/csv" });
    const address = URL.createObjectURL(file);
    make("a", "", { href: address, download: link.textContent }).click();
    URL.revokeObjectURL(address);
  });
  region.after(link);
}

document.querySelectorAll(".table").forEach((region) => {
  sortable(region.querySelector("table"));
  filterable(region);
  savable(region);
});

// ---- the page: intervals or not, all details open or closed.

const tools = make("div", "", { className: "tools" });
if (document.querySelector("td span")) {
  const box = make("input", "", { type: "checkbox", id: "intervals", checked: true });
  box.addEventListener("change", () => document.body.classList.toggle("short", !box.checked));
  const label = make("label", "");
  label.append(box, " Show 95 % intervals");
  tools.append(label);
}
if (document.getElementById("details")) {
  for (const [words, open] of [["Open all details", true], ["Close all details", false]]) {
    const button = make("button", words, { type: "button" });
    button.addEventListener("click", () => document
      .querySelectorAll("details.section, details.section > details:not([id$=contexts])")
      .forEach((box) => { box.open = open; }));
    tools.append(button);
  }
  document.getElementById("details").after(tools);
}

function reveal() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", reveal);
reveal();
