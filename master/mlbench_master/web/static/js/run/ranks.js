// The tables of ranks: where each rank ran, how it ended, and how fast it is.

import { byId, setText } from "../dom.js";
import { NONE, bytes, count, percent, spans } from "../format.js";
import { sum } from "../series.js";
import { durations, figure, fillTable } from "../ui.js";

/**
 * @import { Column } from "../table.js"
 *
 * A rank: where it ran, how it ended, its result, its straggler delay in seconds, and the seconds
 * that its worker waited for stragglers.
 * @typedef {{
 *   rank: number, worker: Rank, figures: Result["ranks"][number] | null, late: number | null, waits: number | null
 * }} RankFigures
 */

const MAX_WORST = 8;
const OWN_HINT = "Mean step without communication";
const LATE_HINT = "Straggler delay: extra time for its own work, compared with a typical rank";
const SENT_HINT =
  "Bytes sent in the latest attempt, headers included. Known after the run, if the rank has a separate network";

/** @returns {string} ranks in words: `rank 3`, `ranks 0–3, 7`. */
export function namesOf(/** @type {number[]} */ ranks) {
  return `${ranks.length === 1 ? "rank" : "ranks"} ${spans(ranks)}`;
}

/** @returns {RankFigures[]} the figures of each process of the workers. */
export function rankFigures(/** @type {Rank[]} */ workers, /** @type {Pick<Result, "ranks" | "stragglers" | "goodput"> | null} */ result) {
  const figures = new Map(result?.ranks.map((rank) => [rank.rank, rank]));
  const late = new Map(result?.stragglers?.ranks.map((rank) => [rank.rank, rank.seconds]));
  const breakdowns = result?.goodput?.ranks ?? [];
  return workers.flatMap((worker) => {
    const waiting = breakdowns.filter(({ rank }) => rank === worker.rank).map(({ seconds }) => seconds.waiting ?? 0);
    const waits = waiting.length && result.stragglers ? sum(waiting) : null;
    return worker.processes.map((rank) => ({ rank, worker, figures: figures.get(rank) ?? null, late: late.get(rank) ?? null, waits }));
  });
}

/** @returns {RankFigures[]} failed ranks, then the others by the time of a step without communication, slowest first. */
export function worstFirst(/** @type {RankFigures[]} */ figures) {
  const slowness = ({ figures: of }) => of?.compute_seconds ?? of?.step_seconds ?? -1;
  return figures.toSorted((a, b) => Number(hasFailed(b.worker)) - Number(hasFailed(a.worker)) || slowness(b) - slowness(a));
}

const hasFailed = (/** @type {Rank} */ { exit_code: code, stopped }) => Boolean(code) && !stopped;

/** @returns {Column<RankFigures>[]} the columns in which a rank has a value. */
function withoutEmpty(/** @type {RankFigures[]} */ ranks, /** @type {Column<RankFigures>[]} */ columns) {
  return columns.filter(({ text }) => ranks.some((rank) => text(rank) !== NONE));
}

/** @returns {Column<RankFigures>[]} the columns of the table of all ranks. */
function columnsOf(/** @type {RankFigures[]} */ ranks) {
  return withoutEmpty(ranks, [
    { title: "Rank", text: ({ rank }) => String(rank) },
    { title: "Pod", text: ({ worker }) => worker.pod ?? NONE },
    {
      ...figure("Exit", ({ worker }) => String(worker.stopped || (worker.exit_code ?? NONE))),
      props: ({ worker }) => ({ class: hasFailed(worker) && "bad-text" }),
    },
    figure("Steps", ({ figures }) => count(figures?.steps)),
    durations("Step time", ranks, ({ figures }) => figures?.step_seconds),
    durations("Own step", ranks, ({ figures }) => figures?.compute_seconds, OWN_HINT),
    figure("Communication", ({ figures }) => percent(figures?.communication_share, 1), "Share of the training time"),
    durations("Delay", ranks, ({ late }) => late, LATE_HINT),
    figure("Samples", ({ figures }) => count(figures?.samples)),
    figure("Network sent", ({ figures }) => bytes(figures?.network_sent_bytes), SENT_HINT),
  ]);
}

/** @returns {Column<RankFigures>[]} the columns of the table of the worst ranks. */
function worstColumnsOf(/** @type {RankFigures[]} */ ranks) {
  return withoutEmpty(ranks, [
    { title: "Rank", isHead: true, text: ({ rank }) => String(rank) },
    durations("Own step", ranks, ({ figures }) => figures?.compute_seconds ?? figures?.step_seconds, OWN_HINT),
    durations("Waits", ranks, ({ waits }) => waits, "Straggler wait: time waiting for slower ranks"),
    durations("Delay", ranks, ({ late }) => late, LATE_HINT),
  ]);
}

/** Show the tables of all ranks, and of those that are worst; the straggler is marked. */
export function showRanks(/** @type {Rank[]} */ workers, /** @type {Result} */ result) {
  const figures = worstFirst(rankFigures(workers, result));
  byId("no-ranks").hidden = figures.length > 0;
  byId("ranks-scroll").hidden = figures.length === 0;
  byId("worst-ranks").hidden = figures.length < 2;
  setText(byId("all-ranks"), figures.length > MAX_WORST ? `All ${figures.length} ranks ›` : "Details ›");
  const straggler = result.stragglers?.named;
  const mark = (/** @type {RankFigures} */ { rank }) => rank === straggler && { class: "is-straggler", title: "Held up the others" };
  fillTable(byId("ranks-table"), columnsOf(figures), figures, ({ rank }) => rank, mark);
  const worst = figures.slice(0, MAX_WORST);
  fillTable(byId("worst-ranks-table"), worstColumnsOf(worst), worst, ({ rank }) => rank, mark);
}
