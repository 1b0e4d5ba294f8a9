// The section "Sweep": each metric over one swept option as lines, and over two as a heat map.

import { showBars } from "../bars.js";
import { Chart } from "../chart.js";
import { byId, h, reconcile, setText } from "../dom.js";
import { alignedNumbers, number } from "../format.js";
import { fillTable } from "../ui.js";

/**
 * @import { Comparison } from "../records.js"
 * @typedef {import("../records.js").Schemas["Axis"]} Axis
 * @typedef {import("../records.js").Schemas["Cell"]} Cell
 * @typedef {import("../records.js").Schemas["Chart"] & { across: Axis, by: Axis | null }} Figure
 */

export class Sweep {
  /** @type {Map<Element, Chart>} */
  #charts = new Map();

  /** By default, the parts of templates/_comparison.html. */
  constructor(/** @type {HTMLElement} */ section = byId("sweep"), /** @type {HTMLElement} */ place = byId("sweep-figures")) {
    this.section = section;
    this.place = place;
  }

  /** Show the sweep of a comparison, if it is one. */
  show(/** @type {Comparison} */ comparison) {
    const { across, by, charts } = comparison.sweep ?? { charts: [] };
    const figures = charts.map((chart) => ({ ...chart, across, by }));
    this.section.hidden = figures.length === 0;
    const make = (figure) => this.#make(figure);
    const keyOf = ({ title, across }) => `${title} ${across.numbers !== null}`;
    reconcile(this.place, figures, keyOf, make, (part, figure) => {
      fillHeat(part.querySelector("table"), figure);
      const chart = this.#charts.get(part);
      if (chart) draw(chart, figure);
      else showBars(/** @type {HTMLElement} */ (part.children[1]), toBars(figure)); // over names there is no line
    });
  }

  #make(/** @type {Figure} */ figure) {
    const place = h("div");
    const table = h("table", { class: "heat" }, h("thead", {}, h("tr")), h("tbody"));
    const scroll = { class: "scroll", tabindex: 0, role: "region", "aria-label": figure.title };
    const part = h("div", {}, h("h3", {}, figure.title), place, h("div", scroll, table));
    if (figure.across.numbers) this.#charts.set(part, new Chart(place, figure.title));
    return part;
  }
}

/** @returns {import("../plot.js").Line[]} a line over the numbers of `across` for each row. */
export function toLines(/** @type {Figure} */ { across, by, axis, cells }) {
  return cells.map((row, i) => {
    const points = row.map((cell, j) => ({ cell, x: across.numbers[j] })).filter((point) => point.cell);
    return {
      name: by ? by.values[i] : axis,
      x: points.map(({ x }) => x),
      y: points.map(({ cell }) => cell.mean),
      lows: points.map(({ cell }) => cell.low ?? cell.mean),
      highs: points.map(({ cell }) => cell.high ?? cell.mean),
      points: true,
    };
  });
}

function draw(/** @type {Chart} */ chart, /** @type {Figure} */ figure) {
  const { across, axis, is_wide } = figure;
  const scale = /** @type {const} */ ({ xType: across.is_wide ? "log" : "linear", yType: is_wide ? "log" : "linear" });
  const x = across.unit ? `${across.key} [${across.unit}]` : across.key;
  chart.draw(toLines(figure), { x, y: axis, xTicks: across.numbers, fromZero: true, ...scale });
}

function toBars(/** @type {Figure} */ { across, by, cells }) {
  const bars = cells.flatMap((row, i) =>
    row.map((cell, j) => ({ cell, name: [by?.values[i], across.values[j]].filter(Boolean).join(", ") })),
  );
  return bars.map(({ cell, name }) => ({
    name,
    text: number(cell?.mean),
    pieces: cell ? [{ name, value: cell.mean, colour: "--series-0" }] : [],
    low: cell?.low,
    high: cell?.high,
  }));
}

function fillHeat(table, /** @type {Figure} */ { across, by, cells }) {
  table.hidden = !by;
  if (!by) return;
  const write = alignedNumbers(cells.flat().flatMap((cell) => [cell?.mean, cell?.high]));
  const values = across.values.map((value, i) => ({
    title: withUnit(value, across),
    fill: (td, row) => fillCell(td, row.cells[i], write),
  }));
  const columns = [{ title: by.key, isHead: true, text: (row) => row.value }, ...values];
  const rows = by.values.map((value, i) => ({ value, cells: cells[i] }));
  fillTable(table, columns, rows, (row) => row.value);
}

function withUnit(/** @type {string} */ value, /** @type {Axis} */ { unit }) {
  return unit ? `${value.replace(unit, "")} ${unit}` : value;
}

function fillCell(td, /** @type {Cell | null} */ cell, write) {
  td.dataset.heat = String(cell?.heat ?? "");
  const parts = [write(cell && cell.mean)];
  if (cell && cell.low !== null && cell.high !== null) {
    parts.push(`${write(cell.low)} to ${write(cell.high)}`);
  }
  const make = () => h("span");
  reconcile(td, parts.map((text, i) => ({ text, i })), ({ i }) => i, make, (span, { text }) =>
    setText(span, text),
  );
}
