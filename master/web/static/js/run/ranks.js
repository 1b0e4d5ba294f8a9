// The table of ranks: where each one ran, how it ended, how fast it is.

import { h, keep, setText } from "../dom.js";
import { count, duration, percent } from "../format.js";
import { slowness } from "./rankfigures.js";

/** @typedef {import("./rankfigures.js").RankFigures} RankFigures */

const COLUMNS = [
  { text: (one) => one.rank },
  { text: (one) => one.pod ?? "–", class: "pod" },
  { text: (one) => one.exitCode ?? "–", class: "figure" },
  { text: (one) => count(one.steps), class: "figure" },
  { text: (one) => duration(one.stepSeconds), class: "figure" },
  { text: (one) => duration(one.computeSeconds), class: "figure" },
  { text: (one) => percent(one.communicationShare, 1), class: "figure" },
  { text: (one) => count(one.samples), class: "figure" },
];

/** The section "Ranks". */
export class Ranks {
  /** @param {Record<string, any>} parts rows, empty, table, order, orderChoice */
  constructor(parts) {
    this.parts = parts;
    this.figures = [];
    parts.order.addEventListener("change", () => this.show(this.figures));
  }

  /** Show these ranks. */
  show(/** @type {RankFigures[]} */ figures) {
    this.figures = figures;
    const { parts } = this;
    parts.empty.hidden = figures.length > 0;
    parts.table.hidden = figures.length === 0;
    parts.orderChoice.hidden = figures.length < 2;
    const isSlowestFirst = parts.order.value === "slowest";
    const rows = isSlowestFirst ? [...figures].sort((a, b) => slowness(b) - slowness(a)) : figures;
    keep(parts.rows, rows, (one) => one.rank, createRow, updateRow);
  }
}

function createRow() {
  const mark = h("span", { class: "mark", hidden: true }, "slowest");
  return h(
    "tr",
    {},
    ...COLUMNS.map((column, i) => h("td", { class: column.class }, h("span"), i === 0 && mark)),
  );
}

function updateRow(row, one) {
  COLUMNS.forEach((column, i) => setText(row.children[i].firstElementChild, column.text(one)));
  row.classList.toggle("has-failed", one.exitCode !== null && one.exitCode !== 0);
  row.querySelector(".mark").hidden = !one.isSlowest;
}
