// The section "Sweep": each figure over a swept value, as lines, and by two keys, as a heat map.

import { Chart } from "../chart.js";
import { byId, h, reconcile, setText } from "../dom.js";
import { alignedNumbers } from "../format.js";

/**
 * @typedef {import("../records.js").Comparison} Comparison
 * @typedef {import("../records.js").Group} Group
 * @typedef {import("../records.js").Schemas["Axis"]} Axis
 * @typedef {{ mean: number, mean_low: number | null, mean_high: number | null }} Point
 *
 * A figure of the groups that differ in two keys: a row for each value of `by`, a column for each
 * of `across`.
 * @typedef {{ title: string, axis: string, isLessBetter: boolean, across: Axis, by: Axis | null,
 *   points: (Point | null)[][] }} Figure
 */

// The colours of the style sheet, from worst to best.
const COLOURS = 7;
// From this ratio on, values are told apart by their logarithms.
const WIDE = 8;
const MEASURES = /** @type {const} */ ([
  {
    name: "Time to accuracy",
    axis: "training time to the goal [s]",
    of: "training_seconds_to_accuracy",
    isLessBetter: true,
  },
  {
    name: "Throughput",
    axis: "throughput [samples/s]",
    of: "samples_per_second",
    isLessBetter: false,
  },
]);

/** The section "Sweep". */
export class Sweep {
  #section = byId("sweep");
  #place = byId("sweep-figures");
  /** @type {Map<Element, Chart>} */
  #charts = new Map();

  /** Show the sweep of a comparison, if it is one. */
  async show(/** @type {Comparison} */ comparison) {
    const figures = toFigures(comparison);
    this.#section.hidden = figures.length === 0;
    const make = (figure) => this.#make(figure);
    reconcile(this.#place, figures, (figure) => figure.title, make, (part, figure) => {
      fillHeat(part.querySelector("table"), figure);
    });
    const parts = [...this.#place.children];
    await Promise.all(figures.map((figure, i) => draw(this.#charts.get(parts[i]), figure)));
  }

  #make(/** @type {Figure} */ figure) {
    const place = h("div");
    const table = h("table", { class: "heat" }, h("thead", {}, h("tr")), h("tbody"));
    const scroll = { class: "scroll", tabindex: 0, role: "region", "aria-label": figure.title };
    const part = h("div", {}, h("h3", {}, figure.title), place, h("div", scroll, table));
    this.#charts.set(part, new Chart(place, figure.title));
    return part;
  }
}

/** @returns {Figure[]} what there is to show of a sweep; nothing of other comparisons. */
export function toFigures(/** @type {Comparison} */ { sweep, groups }) {
  if (!sweep) return [];
  const { across, by } = sweep;
  const keys = [across, by].filter(Boolean).map((axis) => axis.key).join(" and ");
  const figures = MEASURES.flatMap(({ name, axis, of, isLessBetter }) =>
    sweep.panels.map(({ label, cells }) => ({
      title: [`${name} by ${keys}`, label].filter(Boolean).join(", "),
      axis,
      isLessBetter,
      across,
      by,
      points: cells.map((row) => row.map((i) => (i === null ? null : pointOf(groups[i][of])))),
    })),
  );
  return figures.filter(({ points }) => points.flat().some(Boolean));
}

function pointOf(/** @type {Group["samples_per_second"]} */ summary) {
  return summary?.mean == null ? null : /** @type {Point} */ (summary);
}

/** @returns {(number | null)[][]} the colour of each figure, the better the later. */
export function toHeat(/** @type {Figure} */ figure) {
  const height = isWide(figure) ? Math.log : Number;
  const rows = figure.points.map((row) => row.map((point) => point && height(point.mean)));
  const known = rows.flat().filter((value) => value !== null);
  const ends = [Math.min(...known), Math.max(...known)];
  const [worst, best] = figure.isLessBetter ? ends.reverse() : ends;
  const shareOf = (value) => Math.abs((value - worst) / (best - worst || Infinity));
  const step = (value) => Math.round((COLOURS - 1) * shareOf(value));
  return rows.map((row) => row.map((value) => (value === null ? null : step(value))));
}

function isWide(/** @type {Figure} */ { points }) {
  const means = points.flat().filter(Boolean).map((point) => point.mean);
  return Math.min(...means) > 0 && Math.max(...means) >= WIDE * Math.min(...means);
}

/** @returns {import("../plot.js").Line[]} a line over the numbers of `across` for each row. */
export function toLines(/** @type {Figure} */ { across, by, axis, points }) {
  return points.map((row, i) => {
    const known = row.map((point, j) => ({ point, x: across.numbers[j] })).filter((one) => one.point);
    return {
      name: by ? by.values[i] : axis,
      x: known.map(({ x }) => x),
      y: known.map(({ point }) => point.mean),
      lows: known.map(({ point }) => point.mean_low ?? point.mean),
      highs: known.map(({ point }) => point.mean_high ?? point.mean),
      points: true,
    };
  });
}

// Over names there is no line: they are bars.
function draw(/** @type {Chart} */ chart, /** @type {Figure} */ figure) {
  const { across, by, axis, points } = figure;
  if (across.numbers) {
    const yType = isWide(figure) ? "log" : "linear";
    const scale = /** @type {const} */ ({ xType: across.is_wide ? "log" : "linear", yType });
    const axes = { x: titleOf(across), y: axis, xTicks: across.numbers, fromZero: true, ...scale };
    return chart.draw(toLines(figure), axes);
  }
  const bars = points.flatMap((row, i) =>
    row.map((point, j) => ({ point, name: [by?.values[i], across.values[j]].filter(Boolean).join(", ") })),
  );
  const values = bars.map(({ point }) => point?.mean ?? null);
  const lows = bars.map(({ point }) => point?.mean_low ?? point?.mean ?? null);
  const highs = bars.map(({ point }) => point?.mean_high ?? point?.mean ?? null);
  const names = bars.map(({ name }) => name);
  return chart.drawBars(names, [{ name: axis, values, lows, highs }], { x: axis });
}

function titleOf(/** @type {Axis} */ { key, unit }) {
  return unit ? `${key} [${unit}]` : key;
}

function fillHeat(table, /** @type {Figure} */ figure) {
  table.hidden = !figure.by;
  if (!figure.by) return;
  const { across, by, points } = figure;
  const heat = toHeat(figure);
  const write = alignedNumbers(points.flat().flatMap((one) => [one?.mean, one?.mean_high]));
  const heads = [by.key, ...across.values.map((value) => withUnit(value, across))];
  reconcile(table.tHead.rows[0], heads, String, () => h("th", { scope: "col" }), setText);
  const rows = by.values.map((value, i) => ({ value, points: points[i], heat: heat[i] }));
  reconcile(table.tBodies[0], rows, (row) => row.value, () => h("tr"), (line, row) => {
    const cells = [null, ...row.points.keys()];
    const make = (j) => (j === null ? h("th", { scope: "row" }, row.value) : h("td"));
    reconcile(line, cells, String, make, (cell, j) => {
      if (j === null) return;
      cell.dataset.heat = String(row.heat[j] ?? "");
      fillCell(cell, row.points[j], write);
    });
  });
}

function withUnit(/** @type {string} */ value, /** @type {Axis} */ { unit }) {
  return unit ? `${value.replace(unit, "")} ${unit}` : value;
}

function fillCell(cell, /** @type {Point | null} */ point, write) {
  const parts = [write(point && point.mean)];
  if (point && point.mean_low !== null && point.mean_high !== null) {
    parts.push(`${write(point.mean_low)} to ${write(point.mean_high)}`);
  }
  const make = () => h("span");
  reconcile(cell, parts.map((text, i) => ({ text, i })), ({ i }) => i, make, (span, { text }) =>
    setText(span, text),
  );
}
