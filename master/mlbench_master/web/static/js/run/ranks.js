// What each rank has done: the section "Ranks".

import { byId, h, reconcile, setText } from "../dom.js";
import { NONE, bytes, count, duration, percent } from "../format.js";

/**
 * @import { Rank, Result } from "../records.js"
 * @typedef {Result["ranks"][number]} RankResult
 */

/**
 * A rank: where it ran, how it ended, what its result says, and the seconds that it was late.
 * @typedef {{
 *   rank: number, worker: Rank, figures: RankResult | null, late: number | null
 * }} RankFigures
 */

/**
 * @param {Rank[]} workers
 * @param {Pick<Result, "ranks" | "stragglers"> | null} result
 * @returns {RankFigures[]}
 */
export function rankFigures(workers, result) {
  const known = new Map(result?.ranks.map((one) => [one.rank, one]));
  const late = new Map(result?.stragglers?.ranks.map((one) => [one.rank, one.seconds]));
  const toFigures = (worker, rank) => {
    return { rank, worker, figures: known.get(rank) ?? null, late: late.get(rank) ?? null };
  };
  return workers.flatMap((worker) => worker.processes.map((rank) => toFigures(worker, rank)));
}

// The time of a step; without communication, if that is known.
function slowness(/** @type {RankFigures} */ { figures }) {
  return figures?.compute_seconds ?? figures?.step_seconds ?? -1;
}

const COLUMNS = [
  { text: ({ rank }) => rank },
  { text: ({ worker }) => worker.pod ?? NONE, class: "pod" },
  { text: ({ worker }) => worker.stopped || (worker.exit_code ?? NONE), class: "figure" },
  { text: ({ figures }) => count(figures?.steps), class: "figure" },
  { text: ({ figures }) => duration(figures?.step_seconds), class: "figure" },
  { text: ({ figures }) => duration(figures?.compute_seconds), class: "figure" },
  { text: ({ figures }) => percent(figures?.communication_share, 1), class: "figure" },
  { text: ({ late }) => duration(late), class: "figure" },
  { text: ({ figures }) => count(figures?.samples), class: "figure" },
  { text: ({ figures }) => bytes(figures?.network_sent_bytes), class: "figure" },
];

/** The section "Ranks": where each rank ran, how it ended, and how fast it is. */
export class Ranks {
  /** @type {RankFigures[]} */
  #figures = [];
  #order = byId("ranks-order");

  constructor() {
    this.#order.addEventListener("change", () => this.show(this.#figures));
  }

  /** Show these ranks. */
  show(/** @type {RankFigures[]} */ figures) {
    this.#figures = figures;
    byId("no-ranks").hidden = figures.length > 0;
    byId("ranks-table").hidden = figures.length === 0;
    byId("ranks-order-choice").hidden = figures.length < 2;
    const isSlowestFirst = this.#order.value === "slowest";
    const rows = isSlowestFirst ? figures.toSorted((a, b) => slowness(b) - slowness(a)) : figures;
    reconcile(byId("ranks-rows"), rows, (one) => one.rank, createRow, updateRow);
  }
}

function createRow() {
  return h("tr", {}, ...COLUMNS.map((column) => h("td", { class: column.class })));
}

function updateRow(row, /** @type {RankFigures} */ one) {
  COLUMNS.forEach((column, i) => setText(row.children[i], column.text(one)));
  row.classList.toggle("has-failed", Boolean(one.worker.exit_code) && !one.worker.stopped);
}
