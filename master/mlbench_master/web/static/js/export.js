// Files: the values of a chart or a table as CSV, and the picture of a chart as PNG.

import { h } from "./dom.js";
import * as theme from "./theme.js";

/** @import { Axes, Line } from "./plot.js" */

// As mlbench/contract/csv_cells.py: spreadsheets take such texts for formulas.
const BEGINS_A_FORMULA = /^[=+\-@\t\r\n]/;
const NEEDS_QUOTES = /[",\r\n]/;
const FONT = "system-ui, sans-serif";
const [TEXT_PX, ROW_PX, MARGIN_PX, SAMPLE_PX] = [13, 22, 12, 28];

/** @returns {string} one row per point of each line; empty for values that are not numbers. */
export function toCsv(/** @type {Line[]} */ lines, /** @type {Axes} */ axes) {
  const hasBand = lines.some((line) => line.lows);
  const hasSmooth = lines.some((line) => line.smooth);
  const hasCounts = lines.some((line) => line.counts);
  const more = [hasBand && "low", hasBand && "high", hasSmooth && "smoothed", hasCounts && "runs"];
  const head = ["line", axes.x ?? "x", axes.y ?? "value", ...more];
  /** @type {unknown[][]} */
  const rows = [head.filter(Boolean)];
  for (const { name, x, y, lows, highs, smooth, counts } of lines) {
    x.forEach((at, i) => {
      const band = hasBand ? [lows?.[i], highs?.[i]] : [];
      rows.push([name, at, y[i], ...band, ...(hasSmooth ? [smooth?.[i]] : []), ...(hasCounts ? [counts?.[i]] : [])]);
    });
  }
  return rowsToCsv(rows);
}

/** @returns {string} the number as text; empty for null and NaN. */
export function rowsToCsv(/** @type {unknown[][]} */ rows) {
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value) {
  if (value == null || Number.isNaN(value)) return "";
  if (typeof value === "number") return String(value);
  const raw = String(value);
  const text = BEGINS_A_FORMULA.test(raw) ? `'${raw}` : raw;
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * @param {HTMLCanvasElement} plot the canvas of the chart
 * @param {string} title
 * @param {Line[]} lines those that are shown, with a colour each
 * @returns {Promise<Blob>} a PNG of the plot below its title, with the names of its lines
 */
export function toPng(plot, title, lines) {
  const ratio = devicePixelRatio;
  const width = plot.width / ratio;
  const canvas = h("canvas", {});
  const ctx = canvas.getContext("2d");
  ctx.font = `${TEXT_PX}px ${FONT}`;
  let [left, row] = [0, 0];
  const places = lines.map(({ name }) => {
    const wide = SAMPLE_PX + ctx.measureText(name).width + MARGIN_PX;
    if (left && left + wide > width) [left, row] = [0, row + 1];
    const place = { left, row };
    left += wide;
    return place;
  });
  const bottom = ROW_PX + plot.height / ratio;
  canvas.width = (width + 2 * MARGIN_PX) * ratio;
  canvas.height = (bottom + (row + 1) * ROW_PX + 2 * MARGIN_PX) * ratio;
  ctx.scale(ratio, ratio);
  ctx.fillStyle = theme.colour("--paper");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.translate(MARGIN_PX, MARGIN_PX);
  ctx.drawImage(plot, 0, ROW_PX, width, plot.height / ratio);
  ctx.textBaseline = "middle";
  ctx.fillStyle = theme.colour("--ink");
  ctx.font = `600 ${TEXT_PX}px ${FONT}`;
  ctx.fillText(title, 0, ROW_PX / 3);
  ctx.font = `${TEXT_PX}px ${FONT}`;
  ctx.lineWidth = 3;
  lines.forEach(({ name, colour, dash }, i) => {
    const middle = bottom + (places[i].row + 0.5) * ROW_PX;
    ctx.strokeStyle = theme.colour(colour);
    ctx.setLineDash({ solid: [], dash: [5, 3], dot: [1.5, 2.5] }[dash]);
    ctx.beginPath();
    ctx.moveTo(places[i].left, middle);
    ctx.lineTo(places[i].left + SAMPLE_PX - 6, middle);
    ctx.stroke();
    ctx.fillText(name, places[i].left + SAMPLE_PX, middle);
  });
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Let the browser save a file. */
export function save(/** @type {Blob} */ content, /** @type {string} */ name) {
  const href = URL.createObjectURL(content);
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

/** Let the browser save a text in CSV. */
export function saveCsv(/** @type {string} */ text, /** @type {string} */ name) {
  save(new Blob([text], { type: "text/csv" }), name);
}

/** @returns {string} a title as the name of a file. */
export function fileName(/** @type {string} */ title, /** @type {string} */ ending) {
  return `${title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "")}.${ending}`;
}
