// Files and copies: charts as SVG, PNG or CSV, tables as Markdown, LaTeX or CSV, and the menus of both.

import { h, svg } from "./dom.js";
import * as theme from "./theme.js";
import { menu } from "./ui.js";

/**
 * @import { Axes, Line } from "./plot.js"
 *
 * A row of a table, and which of its cells are figures.
 * @typedef {{ cells: string[], figures: boolean[] }} TableRow
 */

// As mlbench/contract/csv_cells.py: spreadsheets take such texts for formulas.
const BEGINS_A_FORMULA = /^[=+\-@\t\r\n]/;
const NEEDS_QUOTES = /[",\r\n]/;
/** The dashes of lines in SVG. */
export const DASHES = { solid: "none", dash: "5 3", dot: "1.5 2.5" };
// Widths in a figure are estimated, because its reader may not have the font.
const [LETTER_PX, LINE_PX, LEGEND_PX, SAMPLE_PX, MARGIN_PX] = [5.8, 15, 18, 28, 12];
const FAMILY = "Inter, Helvetica, Arial, sans-serif";
// A title is isolated from the text around it, which a file does not need.
const ISOLATES = /[\u2068\u2069]/g;
const LATEX = {
  ...{ "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--" },
  ...{ "×": "$\\times$", "≥": "$\\geq$", "≤": "$\\leq$", "·": "$\\cdot$", "−": "$-$", "±": "$\\pm$", "∞": "$\\infty$" },
};
const COPIED_MS = 2500;

/** @returns {string} one row per point of each line; empty for values that are not numbers. */
export function toCsv(/** @type {Line[]} */ lines, /** @type {Axes} */ axes) {
  const optional = { low: "lows", high: "highs", smoothed: "smooth", runs: "counts" };
  const more = Object.entries(optional).filter(([, column]) => lines.some((line) => line[column]));
  /** @type {unknown[][]} */
  const rows = [["line", axes.x ?? "x", axes.y ?? "value", ...more.map(([title]) => title)]];
  for (const line of lines)
    line.x.forEach((at, i) => rows.push([line.name, at, line.y[i], ...more.map(([, column]) => line[column]?.[i])]));
  return rowsToCsv(rows);
}

/** @returns {string} rows in CSV; empty for null and NaN. */
export function rowsToCsv(/** @type {unknown[][]} */ rows) {
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value) {
  if (value == null || Number.isNaN(value)) return "";
  if (typeof value === "number") return String(value);
  const raw = String(value).replaceAll(ISOLATES, "");
  const text = BEGINS_A_FORMULA.test(raw) ? `'${raw}` : raw;
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @returns {Promise<Blob>} an SVG as PNG, on white and at twice its size */
export async function toPng(/** @type {string} */ figure) {
  const picture = new Image();
  picture.src = URL.createObjectURL(new Blob([figure], { type: "image/svg+xml" }));
  await picture.decode();
  URL.revokeObjectURL(picture.src);
  const canvas = h("canvas", { width: 2 * picture.width, height: 2 * picture.height });
  const ctx = canvas.getContext("2d");
  ctx.fillStyle = "white";
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/**
 * Draw the uPlot of a chart as it is shown, with its legend and a caption. Text has the colour of the
 * document that the SVG is put into.
 * @returns {SVGElement}
 */
export function toSvg(plot, /** @type {Line[]} */ lines, /** @type {Axes} */ axes, /** @type {string} */ title, caption = "") {
  const [left, top, width, height] = ["left", "top", "width", "height"].map((side) => plot.bbox[side] / devicePixelRatio);
  const [right, first, last] = [left + width, LINE_PX + top, LINE_PX + top + height];
  const round = (/** @type {number} */ value) => Math.round(10 * value) / 10;
  const xOf = (value) => round(left + plot.valToPos(value, "x"));
  const yOf = (value, scale = "y") => round(first + plot.valToPos(value, scale));
  const text = (content, x, y, more = {}) => svg("text", { x, y, fill: "currentColor", ...more }, String(content).replaceAll(ISOLATES, ""));
  const rule = (x1, x2, y1, y2, more) => svg("line", { x1, x2, y1, y2, stroke: "currentColor", ...more });
  const isEmpty = plot.scales.y.min === null; // nothing is in the part that is zoomed to
  const [columns, rows] = plot.axes.map(({ _splits, _values }) => _splits.map((at, i) => [at, _values[i]]).filter(([, label]) => label));
  const pale = { "stroke-opacity": 0.15 };
  const grid = columns.map(([at, label]) => [
    rule(xOf(at), xOf(at), first, last, pale),
    text(label, xOf(at), last + LINE_PX, { "text-anchor": "middle" }),
  ]);
  const levels = rows.map(([at, label]) => [
    rule(left, right, yOf(at), yOf(at), pale),
    text(label, left - 6, yOf(at) + 4, { "text-anchor": "end" }),
  ]);
  const curves = plot.series.map(({ owner }, at) => at && drawSeries(plot, at, lines[owner], xOf, yOf)).slice(1);
  const marks = (axes.marks ?? []).map(({ y, text: label }) => [
    rule(left, right, yOf(y), yOf(y), { "stroke-dasharray": "6 4" }),
    text(label, left + 4, yOf(y) < first + LINE_PX ? yOf(y) + 12 : yOf(y) - 4),
  ]);
  const over = [axes.y ?? title, axes.x && `over ${axes.x.toLowerCase()}`].filter(Boolean).join(" ");
  const inside = svg("g", { "clip-path": "url(#plot)" }, curves, marks);
  const drawing = [text(over, left, LINE_PX - 2, { "font-weight": 600 }), grid, !isEmpty && [levels, inside]];
  const picture = axes.paint && svg("image", { href: plot.ctx.canvas.toDataURL(), y: LINE_PX, width: plot.width, height: plot.height });
  const named = lines.length > 1 ? lines : [];
  const wide = SAMPLE_PX + MARGIN_PX + LETTER_PX * Math.max(...named.map(({ name }) => name.length));
  const across = Math.max(1, Math.floor((plot.width - left) / wide));
  const legend = named.map((line, i) => {
    const [x, y] = [left + wide * (i % across), last + 2 * LINE_PX + 8 + LEGEND_PX * Math.floor(i / across)];
    return [rule(x, x + SAMPLE_PX - 6, y, y, { ...strokeOf(line), "stroke-width": 3 }), text(line.name, x + SAMPLE_PX, y + 4)];
  });
  const below = last + 2 * LINE_PX + LEGEND_PX * Math.ceil(named.length / across);
  const words = wrapped(caption, plot.width / LETTER_PX);
  const bottom = Math.ceil(below + LINE_PX * (words.length + 1));
  return svg(
    "svg",
    { viewBox: `0 0 ${plot.width} ${bottom}`, width: plot.width, height: bottom, "font-family": FAMILY, "font-size": 11 },
    svg("title", {}, title),
    svg("defs", {}, svg("clipPath", { id: "plot" }, svg("rect", { x: left, y: first, width, height }))),
    picture ?? drawing,
    legend,
    words.map((line, i) => text(line, 0, below + LINE_PX * (i + 1))),
  );
}

// A curve, or the band between this series and the next one; uPlot has undefined where only other
// curves have points, and null where a curve has a gap.
function drawSeries(plot, /** @type {number} */ at, /** @type {Line} */ line, xOf, yOf) {
  const { scale, width, points } = plot.series[at];
  const cornersOf = (/** @type {number} */ column) => plot.data[column].flatMap((value, i) =>
    value === undefined ? [] : [[xOf(plot.data[0][i]), value === null ? null : yOf(value, scale)]],
  );
  const knownOf = (/** @type {number} */ column) => cornersOf(column).filter(([, y]) => y !== null);
  const { stroke } = strokeOf(line);
  if (!width) {
    const isBand = plot.bands.some(({ series: [upper] }) => upper === at);
    const outline = isBand && [...knownOf(at), ...knownOf(at + 1).toReversed()].join(" ");
    return isBand && svg("polygon", { points: outline, fill: stroke, "fill-opacity": 0.2 });
  }
  const corners = cornersOf(at);
  const d = corners.map(([x, y], i) => (y === null ? "" : `${i && corners[i - 1][1] !== null ? "L" : "M"}${x} ${y}`)).join("");
  const path = svg("path", { d, ...strokeOf(line), "stroke-width": width, ...(width === 1 && { "stroke-opacity": 0.3 }) });
  return [path, points.show() && knownOf(at).map(([cx, cy]) => svg("circle", { cx, cy, r: 2.5, fill: stroke }))];
}

function strokeOf(/** @type {Line} */ { colour, dash }) {
  return { fill: "none", stroke: theme.colour(colour), "stroke-dasharray": DASHES[dash] };
}

function wrapped(/** @type {string} */ text, /** @type {number} */ letters) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1).length + word.length < letters) lines.push(`${lines.pop()} ${word}`.trim());
    else lines.push(word);
  }
  return lines.filter(Boolean);
}

/** @returns {TableRow[]} the texts of a table, its head first. */
function rowsOf(/** @type {HTMLTableElement} */ table) {
  const textOf = (/** @type {Element} */ cell) => [...cell.childNodes].map((node) => node.textContent.trim()).filter(Boolean).join(" ").replaceAll(ISOLATES, "");
  return [...table.rows].map(({ cells }) => ({ cells: [...cells].map(textOf), figures: [...cells].map((cell) => cell.classList.contains("figure")) }));
}

/** @returns {string} a table in Markdown, as GitHub and Pandoc read it. */
export function toMarkdown(/** @type {TableRow[]} */ [head, ...rows]) {
  const line = (/** @type {string[]} */ cells) => `| ${cells.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head.cells), line(head.figures.map((isFigure) => (isFigure ? "--:" : ":--"))), ...rows.map(({ cells }) => line(cells))].join("\n") + "\n";
}

/** @returns {string} a table in LaTeX, which needs the package booktabs. */
export function toLatex(/** @type {TableRow[]} */ [head, ...rows], /** @type {string} */ caption) {
  const escape = (/** @type {string} */ text) => text.replace(/[\\~^×≥≤·–−±∞&%$#_{}]/g, (letter) => LATEX[letter] ?? `\\${letter}`);
  const line = (/** @type {string[]} */ cells) => `  ${cells.map(escape).join(" & ")} \\\\`;
  const columns = head.figures.map((isFigure) => (isFigure ? "r" : "l")).join("");
  const body = ["  \\toprule", line(head.cells), "  \\midrule", ...rows.map(({ cells }) => line(cells)), "  \\bottomrule"];
  const tabular = [`  \\begin{tabular}{${columns}}`, ...body, "  \\end{tabular}"];
  return ["\\begin{table}", "  \\centering", ...tabular, `  \\caption{${escape(caption)}}`, "\\end{table}"].join("\n") + "\n";
}

/** Put a menu of actions into the head of the part of a page that `element` is in. */
export function addMenu(/** @type {Element} */ element, /** @type {string} */ label, /** @type {[string, () => unknown][]} */ entries) {
  const button = h("button", { type: "button", class: "quiet more", "aria-label": `Export ${label}`, "aria-expanded": "false" }, "⋯");
  const actions = entries.map(([name, onclick]) => h("button", { type: "button", class: "quiet", onclick }, name));
  const items = h("div", { class: "menu-items", hidden: true }, actions);
  element.closest(".side-part").querySelector(".side-head").append(h("div", { class: "menu" }, button, items));
  menu(button, items);
}

/** Add a menu that copies or saves a table. */
export function addTableMenu(/** @type {HTMLTableElement} */ table, /** @type {string} */ title) {
  addMenu(table, title, [
    ["Copy as Markdown", () => copyText(toMarkdown(rowsOf(table)), fileName(title, "md"))],
    ["Copy as LaTeX", () => copyText(toLatex(rowsOf(table), title), fileName(title, "tex"))],
    ["Save as CSV", () => save(rowsToCsv(rowsOf(table).map(({ cells }) => cells)), fileName(title, "csv"))],
  ]);
}

/** Copy a text, or save it as a file where the browser has no clipboard, as on plain HTTP. */
export async function copyText(/** @type {string} */ text, /** @type {string} */ name, type = "text/plain") {
  let notice = "Copied";
  try {
    const types = [...new Set(["text/plain", type])].filter((kind) => ClipboardItem.supports(kind));
    await navigator.clipboard.write([new ClipboardItem(Object.fromEntries(types.map((kind) => [kind, new Blob([text], { type: kind })])))]);
  } catch {
    save(text, name);
    notice = `Saved as ${name}`;
  }
  const message = h("p", { role: "status", class: "toast" }, notice);
  // An open dialog covers everything outside of it.
  (document.querySelector("dialog[open]") ?? document.body).append(message);
  setTimeout(() => message.remove(), COPIED_MS);
}

/** @returns {HTMLElement} a button that copies what `text()` returns. */
export function copyButton(/** @type {() => string} */ text, /** @type {string} */ what) {
  const onclick = () => copyText(text(), fileName(what, "txt"));
  return h("button", { type: "button", class: "quiet", "aria-label": `Copy ${what}`, onclick }, "Copy");
}

/** Let the browser save a file. */
export function save(/** @type {string | Blob} */ content, /** @type {string} */ name) {
  const href = URL.createObjectURL(new Blob([content]));
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

/** @returns {string} a title as the name of a file. */
export function fileName(/** @type {string} */ title, /** @type {string} */ ending) {
  return `${title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "")}.${ending}`;
}
