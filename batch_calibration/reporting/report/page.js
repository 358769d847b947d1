"use strict";
// Sorts and filters tables, draws figures when they are seen, moves sliders; without it the page
// still has its words, tables and files.

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

// ---- figures: drawn by plotly.js when they come into view, in the page's colors.

// These buttons alone: plotly.js has one that sends the figure to a server.
const CONFIG = { responsive: true, displaylogo: false,
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };

// Colors that the page decides, by the names that charts have for them.
function inPageColors(text) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => JSON.stringify(style.getPropertyValue(name).trim());
  return text.replaceAll('"ink"', color("--ink")).replaceAll('"faint"', color("--grid"));
}

// The words in lines of so many letters.
function wrap(text, letters) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length > letters) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines.join("<br>");
}

const GAP = 70; // pixels between panels, for the names and numbers of axes

// Puts panels into one figure, as many side by side as there is room for.
function arrange(chart, panels, width) {
  const style = getComputedStyle(document.documentElement);
  const [ink, faint, grid, raised] = ["--ink", "--faint", "--grid", "--raised"]
    .map((name) => style.getPropertyValue(name).trim());
  const beside = chart.shared ? 0 : Math.max(...panels.map((panel) => panel.beside));
  const room = Math.floor((width + GAP) / (Math.min(chart.least, 420) + beside + GAP));
  const columns = Math.max(1, Math.min(panels.length, chart.across, room));
  const lines = Math.ceil(panels.length / columns);
  const single = Math.max(...panels.map((panel) => panel.height));
  const titled = panels.some((panel) => panel.title !== panel.name) || panels.length > 1;
  const head = titled ? 20 * Math.max(...panels.map((panel) => panel.title.split("<br>").length)) : 0;
  const height = lines * (single + head) + (lines - 1) * GAP + 75;
  const layout = { height, annotations: [], shapes: [], barmode: "overlay", hovermode: "closest",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: ink },
    hoverlabel: { align: "left", bgcolor: raised, bordercolor: ink, font: { color: ink } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: faint, activecolor: ink },
    margin: { l: 50, r: 15, t: 30, b: 45 },
    legend: { orientation: "h", y: 1, yref: "container", yanchor: "top", x: 0 } };
  const traces = [], names = new Set();
  const inner = height - 75;
  const [across, up] = [(GAP + beside) / width, GAP / inner];
  const wide = (1 - across * (columns - 1)) / columns, high = (1 - up * (lines - 1)) / lines;
  panels.forEach((panel, i) => {
    const end = i ? i + 1 : "", column = i % columns, top = 1 - Math.floor(i / columns) * (high + up);
    const left = column * (wide + across), upper = top - head / inner;
    const axis = { gridcolor: grid, linecolor: grid, showline: true };
    const title = { ...panel.x.title, text: wrap(panel.x.title.text, (wide * width) / 7) };
    layout[`xaxis${end}`] = { ...axis, ...panel.x, title, domain: [left, left + wide], anchor: `y${end}` };
    layout[`yaxis${end}`] = { ...axis, ...panel.y, domain: [Math.max(top - high, 0), upper], anchor: `x${end}` };
    if (panel.y.scaleanchor) layout[`yaxis${end}`].scaleanchor = `x${end}`;
    if (chart.shared && i) Object.assign(layout[`yaxis${end}`],
      { matches: "y", showticklabels: !column, title: column ? "" : panel.y.title });
    if (titled) layout.annotations.push({ text: panel.title, showarrow: false, xref: "paper",
      yref: "paper", x: left, y: upper, xanchor: "left", yanchor: "bottom", align: "left" });
    for (const trace of panel.traces) {
      const first = trace.showlegend && !names.has(trace.name);
      names.add(trace.showlegend ? trace.name : "");
      traces.push({ ...trace, showlegend: first, xaxis: `x${end}`, yaxis: `y${end}` });
    }
    for (const { along, at, name, line } of panel.shapes) {
      const ends = along === "y"
        ? { x0: at, x1: at, y0: 0, y1: 1, xref: `x${end}`, yref: `y${end} domain` }
        : { y0: at, y1: at, x0: 0, x1: 1, yref: `y${end}`, xref: `x${end} domain` };
      layout.shapes.push({ type: "line", layer: "above", line, name, ...ends,
        showlegend: Boolean(name) && !names.has(name) });
      names.add(name);
    }
  });
  // One name needs no legend; a figure of one thing says it in its heading.
  layout.showlegend = names.size - names.has("") > 1;
  if (layout.showlegend) layout.margin.t += 20;
  return { traces, layout };
}

const figures = new Map();

class Drawn {
  constructor(place) {
    this.place = place;
    this.box = place.parentElement;
    this.text = this.box.querySelector("script").textContent;
    this.choice = this.box.querySelector("select");
    this.slider = this.box.querySelector("input[type=range]");
    this.choice?.addEventListener("change", () => { this.draw(); });
    if (this.slider) {
      this.slider.max = this.lines(this.panels()[0])[0].x.length - 1;
      this.slider.value = this.start();
      this.slider.addEventListener("input", () => this.draw());
    }
  }

  panels() {
    const chart = JSON.parse(inPageColors(this.text));
    const number = Number(this.choice?.value ?? 0);
    return this.choice ? [chart.panels[number]] : chart.panels;
  }

  lines(panel) { return panel.traces.filter((trace) => trace.mode?.startsWith("lines") && trace.showlegend); }

  // A strength begins at 1, which is BC; a number of rows with all of them.
  start() {
    const at = this.lines(this.panels()[0])[0].x;
    return Math.max(at.indexOf(1), 0) || at.length - 1;
  }

  // The slider's line, and what all lines say there.
  slide(panels, label) {
    const lines = this.lines(panels[0]);
    this.slider.max = lines[0].x.length - 1;
    const at = lines[0].x[Math.min(Number(this.slider.value), lines[0].x.length - 1)];
    panels[0].shapes.push({ along: "y", at, name: "", line: { width: 2, dash: "dash" } });
    const values = lines.filter((line) => line.x.includes(at))
      .map((line) => `${line.name} ${line.y[line.x.indexOf(at)].toFixed(1)} %`);
    const sentence = `${label} = ${at.toLocaleString("en")}: ${values.join(", ")} (${panels[0].name}).`;
    this.slider.setAttribute("aria-valuetext", sentence);
    this.box.querySelector("output").textContent = sentence;
  }

  draw(width) {
    const chart = JSON.parse(inPageColors(this.text)), panels = this.panels();
    if (this.slider) this.slide(panels, chart.slider);
    const { traces, layout } = arrange(chart, panels, (width ?? this.place.clientWidth) - 65);
    if (width) Object.assign(layout, { width, autosize: false });
    this.place.style.minHeight = `${layout.height}px`;
    Plotly.react(this.place, traces, layout, CONFIG);
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
  const redraw = () => figures.forEach((one) => { if (one.place.offsetParent) one.draw(); });
  let wait;
  addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(redraw, 150); });
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
