"use strict";
// Sorts and filters tables, draws figures when they are seen, moves sliders; without it the page
// still has its words, tables and files.

const make = (name, text, props = {}) =>
  Object.assign(document.createElement(name), { textContent: text }, props);

// ---- tables: a button in each header sorts, a field filters rows; sums stay below.

const number = (text) => {
  const found = /^[-+]?[\d.,]+/.exec(text.trim());
  return found ? parseFloat(found[0].replace(/,/g, "")) : NaN;
};

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

document.querySelectorAll(".table").forEach((region) => {
  sortable(region.querySelector("table"));
  filterable(region);
});

// ---- the page: intervals on hover or always, all tables open or closed.

const contents = document.querySelector("nav");
if (document.querySelector(".interval")) {
  document.body.classList.add("short");
  const box = make("input", "", { type: "checkbox", id: "intervals" });
  box.addEventListener("change", () => document.body.classList.toggle("short", !box.checked));
  const label = make("label", "");
  label.append(box, " Show 95 % intervals in tables (else on hover)");
  contents.after(label);
  label.className = "tools";
}
const fold = make("div", "", { className: "tools" });
for (const [words, open] of [["Open all tables", true], ["Close all tables", false]]) {
  const button = make("button", words, { type: "button" });
  button.addEventListener("click", () => document.querySelectorAll("section > details:not([id$=contexts])")
    .forEach((one) => { one.open = open; }));
  fold.append(button);
}
contents.after(fold);

function reveal() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", reveal);
reveal();

// ---- figures: drawn by plotly.js when they come into view, in the page's colors.

// These buttons alone: plotly.js has one that sends the figure to a server.
const CONFIG = { responsive: true, displaylogo: false,
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };

function themed(layout, width) {
  const style = getComputedStyle(document.documentElement);
  const [ink, faint, grid, raised] = ["--ink", "--faint", "--grid", "--raised"]
    .map((name) => style.getPropertyValue(name).trim());
  const made = structuredClone(layout);
  Object.assign(made, { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: ink },
    hoverlabel: { align: "left", bgcolor: raised, bordercolor: ink, font: { color: ink } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: faint, activecolor: ink },
    margin: { l: 50, r: 15, t: 30, b: 45, ...layout.margin },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, ...layout.legend } });
  if (width) Object.assign(made, { width, autosize: false });
  for (const name of Object.keys(made).filter((key) => /^[xy]axis\d*$/.test(key))) {
    made[name] = { gridcolor: grid, zerolinecolor: ink, linecolor: grid, ...made[name] };
  }
  for (const shape of made.shapes ?? []) shape.line.color ??= ink;
  return made;
}

const figures = new Map();

class Drawn {
  constructor(place) {
    this.place = place;
    this.box = place.parentElement;
    this.said = JSON.parse(this.box.querySelector("script").textContent);
    this.choice = this.box.querySelector("select");
    this.slider = this.box.querySelector("input[type=range]");
    this.choice?.addEventListener("change", () => this.draw());
    this.slider?.addEventListener("input", () => this.draw());
  }

  draw(width) {
    const view = structuredClone(this.said.views[this.choice?.value ?? 0]);
    if (this.slider) {
      const at = Number(this.slider.value), { values, moved, said } = this.said.slider;
      view.traces.at(-1).x = moved[at];
      Object.assign(view.layout.shapes[0], { x0: values[at], x1: values[at] });
      this.slider.setAttribute("aria-valuetext", said[at]);
      this.box.querySelector("output").textContent = said[at];
    }
    this.place.style.minHeight = `${view.layout.height ?? 280}px`;
    Plotly.react(this.place, view.traces, themed(view.layout, width), CONFIG);
  }
}

function figure(place) {
  if (!figures.has(place)) figures.set(place, new Drawn(place));
  return figures.get(place);
}

// plotly.js is packed: the page is less than half as large.
async function load(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  document.head.append(make("script", await new Response(unpacked).text()));
}

function watch() {
  const seen = new IntersectionObserver((entries) => {
    for (const one of entries.filter((entry) => entry.isIntersecting)) {
      seen.unobserve(one.target);
      figure(one.target).draw();
    }
  }, { rootMargin: "300px" });
  document.querySelectorAll(".plot").forEach((place) => seen.observe(place));
  const redraw = () => figures.forEach((one) => one.draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Paper is white and narrow, and shows what was not scrolled to.
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    document.querySelectorAll(".plot").forEach((place) => {
      if (place.offsetParent) figure(place).draw(690);
    });
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    redraw();
  });
}

const library = document.getElementById("library");
if (library) load(library.textContent).then(watch);
