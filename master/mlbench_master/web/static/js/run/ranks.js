// The section "Ranks": progress and speed of each rank.

import { byId, setText } from "../dom.js";
import { NONE, bytes, count, duration, percent } from "../format.js";
import { sum } from "../series.js";
import { figure, fillTable } from "../ui.js";

/**
 * @import { Rank, Result } from "../records.js"
 * @typedef {Result["ranks"][number]} RankResult
 */

/**
 * A rank: where it ran, how it ended, what its result says, and the seconds that it was late, and
 * that its worker waited for stragglers.
 * @typedef {{
 *   rank: number, worker: Rank, figures: RankResult | null, late: number | null, waits: number | null
 * }} RankFigures
 */

const LATE_HINT = "Straggler delay: extra time for its own work, compared with a typical rank";
const SENT_HINT =
  "Bytes sent in the latest attempt, headers included. Known after the run, if the rank has a separate network";

/**
 * @param {Rank[]} workers
 * @param {Pick<Result, "ranks" | "stragglers" | "goodput"> | null} result
 * @returns {RankFigures[]}
 */
export function rankFigures(workers, result) {
  const figures = new Map(result?.ranks.map((rank) => [rank.rank, rank]));
  const late = new Map(result?.stragglers?.ranks.map((rank) => [rank.rank, rank.seconds]));
  const breakdowns = result?.goodput?.ranks ?? [];
  const waitsOf = (/** @type {Rank} */ worker) => {
    const waits = breakdowns.filter(({ rank }) => rank === worker.rank).map(({ seconds }) => seconds.waiting ?? 0);
    return waits.length && result?.stragglers ? sum(waits) : null;
  };
  const toFigures = (worker, rank) => {
    return { rank, worker, figures: figures.get(rank) ?? null, late: late.get(rank) ?? null, waits: waitsOf(worker) };
  };
  return workers.flatMap((worker) => worker.processes.map((rank) => toFigures(worker, rank)));
}

/** @returns {RankFigures[]} failed ranks, then the others by the time of a step without communication, slowest first. */
export function worstFirst(/** @type {RankFigures[]} */ figures) {
  const hasFailed = ({ worker }) => Number(Boolean(worker.exit_code) && !worker.stopped);
  const slowness = ({ figures: of }) => of?.compute_seconds ?? of?.step_seconds ?? -1;
  return figures.toSorted((a, b) => hasFailed(b) - hasFailed(a) || slowness(b) - slowness(a));
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

const MAX_WORST = 8;
/** @type {import("../ui.js").Column<RankFigures>[]} */
const WORST_COLUMNS = [
  { title: "Rank", isHead: true, text: ({ rank }) => String(rank) },
  figure("Own step", ({ figures }) => duration(figures?.compute_seconds ?? figures?.step_seconds), "Mean time per step without communication"),
  figure("Waits", ({ waits }) => duration(waits), "Straggler wait: time waiting for slower ranks"),
  figure("Late", ({ late }) => duration(late), LATE_HINT),
];

/** The section "Ranks": where each rank ran, how it ended, and how fast it is. */
export class Ranks {
  /** @type {RankFigures[]} */
  #figures = [];
  /** @type {number | null} */
  #straggler = null;
  #order = byId("ranks-order");

  constructor() {
    this.#order.addEventListener("change", () => this.show(this.#figures));
  }

  /**
   * @param {RankFigures[]} figures
   * @param {number | null} [straggler] rank that held up the others
   */
  show(figures, straggler = this.#straggler) {
    this.#figures = figures;
    this.#straggler = straggler;
    this.#showWorst();
    byId("no-ranks").hidden = figures.length > 0;
    byId("ranks-scroll").hidden = figures.length === 0;
    byId("ranks-order-choice").hidden = figures.length < 2;
    const isSlowestFirst = this.#order.value === "slowest";
    this.#fill(byId("ranks-table"), COLUMNS, isSlowestFirst ? worstFirst(figures) : figures);
  }

  #showWorst() {
    const count = this.#figures.length;
    byId("worst-ranks").hidden = count < 2;
    setText(byId("all-ranks"), count > MAX_WORST ? `All ${count} ranks ›` : "Details ›");
    this.#fill(byId("worst-ranks-table"), WORST_COLUMNS, worstFirst(this.#figures).slice(0, MAX_WORST));
  }

  #fill(/** @type {HTMLTableElement} */ table, /** @type {import("../ui.js").Column<RankFigures>[]} */ columns, /** @type {RankFigures[]} */ rows) {
    fillTable(table, columns, rows, ({ rank }) => rank);
    for (const line of table.tBodies[0].rows) {
      const isSlow = line.dataset.key === String(this.#straggler);
      line.classList.toggle("is-straggler", isSlow);
      line.title = isSlow ? "Held up the others" : "";
    }
  }
}

function fillExit(cell, /** @type {RankFigures} */ { worker }) {
  setText(cell, worker.stopped || (worker.exit_code ?? NONE));
  cell.classList.toggle("bad-text", Boolean(worker.exit_code) && !worker.stopped);
}
