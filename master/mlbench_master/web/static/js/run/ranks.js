// The section "Ranks": progress and speed of each rank.

import { byId, setText } from "../dom.js";
import { NONE, bytes, count, duration, percent } from "../format.js";
import { figure, fillTable } from "../ui.js";

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

const LATE_HINT = "Straggler delay: extra time for its own work, compared with a typical rank";
const SENT_HINT =
  "Bytes sent in the latest attempt, headers included. Known after the run, if the rank has a separate network";

/**
 * @param {Rank[]} workers
 * @param {Pick<Result, "ranks" | "stragglers"> | null} result
 * @returns {RankFigures[]}
 */
export function rankFigures(workers, result) {
  const figures = new Map(result?.ranks.map((rank) => [rank.rank, rank]));
  const late = new Map(result?.stragglers?.ranks.map((rank) => [rank.rank, rank.seconds]));
  const toFigures = (worker, rank) => {
    return { rank, worker, figures: figures.get(rank) ?? null, late: late.get(rank) ?? null };
  };
  return workers.flatMap((worker) => worker.processes.map((rank) => toFigures(worker, rank)));
}

// The time of a step; without communication, if that is known.
function slowness(/** @type {RankFigures} */ { figures }) {
  return figures?.compute_seconds ?? figures?.step_seconds ?? -1;
}

/** @type {import("../ui.js").Column<RankFigures>[]} */
const COLUMNS = [
  { title: "Rank", text: ({ rank }) => String(rank) },
  { title: "Pod", text: ({ worker }) => worker.pod ?? NONE },
  { title: "Exit", isFigure: true, fill: fillExit },
  figure("Steps", ({ figures }) => count(figures?.steps)),
  figure("Step time", ({ figures }) => duration(figures?.step_seconds)),
  figure("Compute", ({ figures }) => duration(figures?.compute_seconds)),
  figure("Communication", ({ figures }) => percent(figures?.communication_share, 1), "Share of the training time"),
  figure("Delay", ({ late }) => duration(late), LATE_HINT),
  figure("Samples", ({ figures }) => count(figures?.samples)),
  figure("Network sent", ({ figures }) => bytes(figures?.network_sent_bytes), SENT_HINT),
];

/** The section "Ranks": where each rank ran, how it ended, and how fast it is. */
export class Ranks {
  /** @type {RankFigures[]} */
  #figures = [];
  #order = byId("ranks-order");

  constructor() {
    this.#order.addEventListener("change", () => this.show(this.#figures));
  }

  show(/** @type {RankFigures[]} */ figures) {
    this.#figures = figures;
    byId("no-ranks").hidden = figures.length > 0;
    byId("ranks-scroll").hidden = figures.length === 0;
    byId("ranks-order-choice").hidden = figures.length < 2;
    const isSlowestFirst = this.#order.value === "slowest";
    const rows = isSlowestFirst ? figures.toSorted((a, b) => slowness(b) - slowness(a)) : figures;
    fillTable(byId("ranks-table"), COLUMNS, rows, ({ rank }) => rank);
  }
}

function fillExit(cell, /** @type {RankFigures} */ { worker }) {
  setText(cell, worker.stopped || (worker.exit_code ?? NONE));
  cell.classList.toggle("bad-text", Boolean(worker.exit_code) && !worker.stopped);
}
