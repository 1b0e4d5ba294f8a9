// The section "Step times": how long the steps of each rank took over time, as a heat map.

import { byId, h, reconcile, setNotice, setText } from "../dom.js";
import { duration, number } from "../format.js";
import { EMPTY, counterAt } from "../series.js";
import * as theme from "../theme.js";
import { figure, fillTable } from "../ui.js";
import { onZoom, zoomOf } from "../zoom.js";
import { SeriesStore } from "./series-store.js";

/**
 * @import { Run } from "../records.js"
 * @import { Axis } from "./curves.js"
 *
 * Seconds of a step by rank and time; NaN where there was none. Row i is of `ranks[i]`, and its j-th
 * value of what lies between `edges[j]` and `edges[j + 1]`, in Unix milliseconds.
 * @typedef {{ ranks: number[], edges: number[], rows: number[][] }} Cells
 */

const METRICS = ["step", "train_seconds", "communication_seconds"];
const MIN_RANKS = 4;
// Of all ranks and metrics together.
const POINTS_OF_ALL = 36_000;
const [MIN_COLUMNS, MAX_COLUMNS] = [12, 200];
const LEVELS = 7;
// If a scale went on to much longer steps than most are, all others would look alike.
const [TYPICAL_QUANTILE, LONGER] = [0.98, 2];
const ROW_PX = 16;
const MAX_HEIGHT_PX = 480;
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/**
 * @param {import("../series.js").ByMetric} series totals of steps, seconds, and maybe communication
 * @param {number} columns at most
 * @param {boolean} isComputing whether to leave communication out, in which ranks wait for others
 * @returns {Cells}
 */
export function cellsOf(series, columns, isComputing) {
  const [steps, seconds, waited] = METRICS.map((metric) => series.get(metric) ?? new Map());
  const ranks = [...steps.keys()].filter((rank) => seconds.has(rank)).sort((a, b) => a - b);
  const times = ranks.map((rank) => steps.get(rank).times);
  const start = Math.min(...times.map((moments) => moments[0]));
  const end = Math.max(...times.map((moments) => moments.at(-1)));
  const count = Math.min(columns, Math.max(0, ...times.map((moments) => moments.length - 1)));
  const edges = Array.from({ length: count + 1 }, (_, i) => start + ((end - start) * i) / count);
  const rows = ranks.map((rank) => {
    const done = growth(steps.get(rank), edges);
    const took = growth(seconds.get(rank), edges);
    const apart = isComputing ? growth(waited.get(rank) ?? EMPTY, edges) : done.map(() => 0);
    return done.map((many, i) => (many > 0 && took[i] > apart[i] ? (took[i] - apart[i]) / many : NaN));
  });
  return { ranks, edges, rows };
}

function growth(/** @type {import("../series.js").Series} */ total, /** @type {number[]} */ edges) {
  const values = counterAt(total, edges);
  return values.slice(1).map((value, i) => value - values[i]);
}

/** @returns {[number, number]} the shortest step and the longest, but at most twice what most take. */
export function scaleOf(/** @type {number[][]} */ rows) {
  const values = rows.flat().filter(Number.isFinite).sort((a, b) => a - b);
  return [values[0], Math.min(values.at(-1), LONGER * values[Math.floor(TYPICAL_QUANTILE * (values.length - 1))])];
}

/** @returns {number} the level of a value on a scale: 0 to 6. */
export function levelOf(/** @type {number} */ value, /** @type {[number, number]} */ [low, high]) {
  const share = high > low ? (value - low) / (high - low) : 0;
  return Math.min(LEVELS - 1, Math.floor(share * LEVELS));
}

/** The section "Step times", of runs with several ranks. */
export class Heat {
  #canvas = byId("steps-map");
  #figure = byId("steps-figure");
  #recorded;
  /** @type {Cells} */
  #cells = { ranks: [], edges: [], rows: [] };
  /** @type {Axis | null} */
  #axis = null;
  /** @type {number[]} */
  #places = [];
  /** @type {[number, number]} */
  #window = [0, 1];
  /** @type {{ row: number, column: number } | null} */
  #chosen = null;

  constructor(/** @type {number} */ runId) {
    this.#recorded = new SeriesStore(runId, MAX_COLUMNS);
    this.#figure.addEventListener("change", () => this.#show());
    this.#canvas.addEventListener("pointermove", (event) => this.#choose(this.#at(event)));
    this.#canvas.addEventListener("keydown", (event) => {
      const [down, right] = MOVES[event.key] ?? [0, 0];
      if (!down && !right) return;
      event.preventDefault();
      const { row, column } = this.#chosen ?? { row: 0, column: 0 };
      this.#choose({ row: row + down, column: column + right });
    });
    onZoom(() => this.#draw());
    new ResizeObserver(() => this.#draw()).observe(this.#canvas);
  }

  /** Fetch the totals of the ranks, and draw how long their steps took. */
  async refresh(/** @type {Run} */ run, /** @type {boolean} */ isReload, /** @type {Axis} */ axis) {
    byId("step-times").hidden = run.world_size < MIN_RANKS;
    if (run.world_size < MIN_RANKS) return;
    const points = Math.floor(POINTS_OF_ALL / METRICS.length / run.world_size);
    this.#recorded.points = Math.max(MIN_COLUMNS, Math.min(MAX_COLUMNS, points));
    await this.#recorded.refresh(METRICS, isReload);
    this.#axis = axis;
    this.#figure.parentElement.hidden = !this.#recorded.series.has(METRICS[2]);
    this.#show();
  }

  #show() {
    const isComputing = this.#figure.value === "computing" && !this.#figure.parentElement.hidden;
    this.#cells = cellsOf(this.#recorded.series, this.#recorded.points, isComputing);
    const { ranks, edges, rows } = this.#cells;
    this.#places = this.#axis.place(edges);
    const summaries = ranks.map((rank, i) => ({ rank, ...summaryOf(rows[i]) })).filter((summary) => summary.column >= 0);
    byId("steps-all").hidden = !summaries.length;
    setNotice(byId("no-steps"), summaries.length ? "" : "No steps so far.");
    if (!summaries.length) return;
    const slowest = summaries.reduce((most, summary) => (summary.longest > most.longest ? summary : most));
    const what = `${this.#figure.selectedOptions[0].text} of ${ranks.length} ranks over time`;
    const longest = `longest ${duration(slowest.longest)}, rank ${slowest.rank}`;
    this.#canvas.setAttribute("aria-label", `${what}; ${longest}, ${this.#when(slowest.column)}`);
    /** @type {import("../ui.js").Column<typeof slowest>[]} */
    const columns = [
      { title: "Rank", isHead: true, text: ({ rank }) => String(rank) },
      figure("Median", ({ median }) => duration(median)),
      figure("Longest", ({ longest }) => duration(longest)),
      { title: "When", text: ({ column }) => this.#when(column) },
    ];
    fillTable(byId("steps-table"), columns, summaries, ({ rank }) => rank);
    this.#draw();
  }

  #draw() {
    const { rows } = this.#cells;
    const { clientWidth: width } = this.#canvas;
    if (!rows.length || !width) return;
    const height = Math.min(MAX_HEIGHT_PX, ROW_PX * rows.length);
    const scale = scaleOf(rows);
    const colours = this.#showScale(scale);
    const places = this.#places.filter(Number.isFinite);
    this.#window = zoomOf(this.#axis.shared) ?? [places[0], places.at(-1)];
    [...byId("steps-ends").children].forEach((end, i) =>
      setText(end, [number(this.#window[0]), this.#axis.title, number(this.#window[1])][i]),
    );
    this.#canvas.style.height = `${height}px`;
    this.#canvas.width = width * devicePixelRatio;
    this.#canvas.height = height * devicePixelRatio;
    const ctx = this.#canvas.getContext("2d");
    ctx.scale(devicePixelRatio, devicePixelRatio);
    const [from, to] = this.#window;
    const across = this.#places.map((place) => Math.round(((place - from) / (to - from)) * width));
    const down = [...rows, []].map((_, row) => Math.round((row * height) / rows.length));
    const boxOf = (row, column) =>
      /** @type {const} */ ([across[column], down[row], across[column + 1] - across[column], down[row + 1] - down[row]]);
    rows.forEach((row, i) =>
      row.forEach((value, j) => {
        if (Number.isNaN(value)) return;
        ctx.fillStyle = colours[levelOf(value, scale)];
        ctx.fillRect(...boxOf(i, j));
      }),
    );
    if (!this.#chosen) return;
    ctx.strokeStyle = theme.colour("--ink");
    ctx.lineWidth = 2;
    ctx.strokeRect(...boxOf(this.#chosen.row, this.#chosen.column));
  }

  /** @returns {string[]} the colours of the levels, as the legend has them */
  #showScale(/** @type {[number, number]} */ [low, high]) {
    const key = byId("steps-key");
    const ends = Array.from({ length: high > low ? LEVELS : 1 }, (_, i) => low + ((high - low) * i) / LEVELS);
    reconcile(key, ends.map((end, level) => ({ end, level })), ({ level }) => level, ({ level }) => h("li", { "data-heat": level }), (item, { end }) =>
      setText(item, `${duration(end)}${end === ends.at(-1) ? " or more" : ""}`),
    );
    return [...key.children].map((item) => getComputedStyle(item).backgroundColor);
  }

  #at(/** @type {PointerEvent} */ { offsetX, offsetY }) {
    const { clientWidth, clientHeight } = this.#canvas;
    const [from, to] = this.#window;
    const place = from + ((to - from) * offsetX) / clientWidth;
    return {
      row: Math.floor((offsetY / clientHeight) * this.#cells.rows.length),
      column: this.#places.findLastIndex((edge) => edge <= place),
    };
  }

  #choose({ row, column }) {
    const { ranks, rows } = this.#cells;
    const within = (at, /** @type {number} */ count) => Math.max(0, Math.min(count - 1, at));
    this.#chosen = { row: within(row, rows.length), column: within(column, rows[0].length) };
    const value = rows[this.#chosen.row][this.#chosen.column];
    const text = Number.isNaN(value) ? "no step" : `${duration(value)} per step`;
    setText(byId("steps-value"), `Rank ${ranks[this.#chosen.row]}, ${this.#when(this.#chosen.column)}: ${text}`);
    this.#draw();
  }

  #when(/** @type {number} */ column) {
    const [from, to] = this.#places.slice(column, column + 2).map((place) => number(place));
    return `${this.#axis.title.toLowerCase()} ${from} to ${to}`;
  }
}

// The median and the longest of a rank's steps, and where that is; −1 if there are none.
function summaryOf(/** @type {number[]} */ row) {
  const values = row.filter(Number.isFinite).sort((a, b) => a - b);
  const longest = values.at(-1);
  return { median: values[values.length >> 1], longest, column: values.length ? row.indexOf(longest) : -1 };
}
