// How the time of steps divides into own work, straggler wait and communication: in bins, from the
// totals that ranks record about once a second, and for each step that was recorded individually.

import { EMPTY, counterAt, medianOf, sum } from "../series.js";

/**
 * @import { ByMetric, Series } from "../series.js"
 *
 * Seconds by rank and bin. Row i is of `ranks[i]`, and its j-th value of the time between `edges[j]`
 * and `edges[j + 1]`, in Unix milliseconds. `bin` is the length of a bin in seconds; `times` is the
 * work per step, or NaN for a bin without any.
 * @typedef {{ ranks: number[], edges: number[], bin: number, steps: number[][], work: number[][],
 *   waiting: number[][], exchange: number[][], times: number[][] }} Lanes
 *
 * A step of a rank, with its begin and end in Unix milliseconds. `exchange` is all communication in
 * seconds, of which `waiting` is beyond the rank that communicated least. `isMean` if it was not
 * recorded for this step.
 * @typedef {{ number: number, begin: number, end: number, exchange: number, waiting: number,
 *   isMean: boolean }} Step
 */

/** The metrics that lanes are computed from. */
export const TOTALS = ["step", "train_seconds", "communication_seconds"];
/** The communication of steps that are recorded individually. */
export const OF_STEPS = "sampled_communication_seconds";
const LEVELS = 7;
// If the scale included steps that are much longer than most, all others would look alike.
const [MOST, LONGER] = [0.98, 2];
// Shorter pauses are below the precision of recorded times.
const MIN_PAUSE_MS = 5;

/** @returns {Lanes} the bins of a window: at most `columns`, and none shorter than the time between two totals. */
export function lanesOf(/** @type {ByMetric} */ series, /** @type {number} */ columns, [from, to] = [-Infinity, Infinity]) {
  const [steps, clocks, exchanges] = TOTALS.map((metric) => series.get(metric) ?? new Map());
  const ranks = [...steps.keys()].filter((rank) => clocks.has(rank)).sort((a, b) => a - b);
  const inside = ranks.map((rank) => clocks.get(rank).times.filter((time) => time >= from && time <= to));
  const times = inside.filter((moments) => moments.length > 1);
  const start = Math.min(...times.map((moments) => moments[0]));
  const end = Math.max(...times.map((moments) => moments.at(-1)));
  const count = Math.min(columns, Math.max(0, ...times.map((moments) => moments.length - 1)));
  const edges = count ? Array.from({ length: count + 1 }, (_, i) => start + ((end - start) * i) / count) : [];
  const growthOf = (/** @type {Map<number, Series>} */ totals) => ranks.map((rank) => growth(totals.get(rank) ?? EMPTY, edges));
  const [done, trained, exchange] = [steps, clocks, exchanges].map(growthOf);
  const least = edges.slice(1).map((_, bin) => Math.min(...exchange.map((row) => row[bin])));
  const work = trained.map((row, i) => row.map((seconds, bin) => Math.max(0, seconds - exchange[i][bin])));
  return {
    ranks, edges, bin: count ? (end - start) / count / 1000 : 0, steps: done, work, exchange,
    waiting: exchange.map((row) => row.map((seconds, bin) => seconds - least[bin])),
    times: work.map((row, i) => row.map((seconds, bin) => (done[i][bin] > 0 && seconds > 0 ? seconds / done[i][bin] : NaN))),
  };
}

function growth(/** @type {Series} */ total, /** @type {number[]} */ edges) {
  const values = counterAt(total, edges);
  // A phase is not recorded before it is entered, and a total of a new attempt may be smaller.
  return values.slice(1).map((value, i) => Math.max(0, value - (values[i] || 0)) || 0);
}

/** @returns {Step[][]} by rank, the steps of which both ends were recorded and not summarised. */
export function singleSteps(/** @type {ByMetric} */ series, /** @type {number[]} */ ranks) {
  const [steps, clocks, exchanges, ofSteps] = [...TOTALS, OF_STEPS].map((metric) => series.get(metric) ?? new Map());
  const least = new Map();
  const lanes = ranks.map((rank) => {
    // The end of each step is the time of the first value with its number.
    const { times, values, lows, highs } = steps.get(rank) ?? EMPTY;
    const singles = [...values.keys()].filter((i) => lows[i] === highs[i]);
    const ends = new Map(singles.toReversed().map((i) => [values[i], times[i]]));
    const recorded = new Map((ofSteps.get(rank) ?? EMPTY).times.map((time, i) => [time, ofSteps.get(rank).values[i]]));
    /** @type {Step[]} */
    const lane = [...ends.keys()].filter((number) => ends.has(number - 1)).reverse().map((number) => {
      const [begin, end] = [ends.get(number - 1), ends.get(number)];
      const isMean = !recorded.has(end);
      const exchange = isMean ? growth(exchanges.get(rank) ?? EMPTY, [begin, end])[0] : recorded.get(end);
      least.set(number, Math.min(least.get(number) ?? Infinity, exchange));
      return { number, begin, end, exchange, waiting: 0, isMean };
    });
    leaveOutPauses(lane, clocks.get(rank) ?? EMPTY);
    return lane;
  });
  for (const step of lanes.flat()) step.waiting = step.exchange - least.get(step.number);
  return lanes;
}

// Time between two totals that is not training, such as an evaluation, came before the step that
// seems the longest.
function leaveOutPauses(/** @type {Step[]} */ lane, /** @type {Series} */ { times, values }) {
  for (let i = 1; i < times.length; i++) {
    const pause = times[i] - times[i - 1] - (values[i] - values[i - 1]) * 1000;
    const steps = lane.filter(({ begin, end }) => end > times[i - 1] && begin < times[i]);
    const [longest] = steps.sort((a, b) => b.end - b.begin - (a.end - a.begin));
    if (pause > MIN_PAUSE_MS && longest && longest.end - longest.begin > pause) longest.begin += pause;
  }
}

/** @returns {number[]} where each level begins: from the shortest step to the longest, but at most to twice what most take. */
export function levelsOf(/** @type {number[][]} */ rows) {
  const values = rows.flat().filter(Number.isFinite).sort((a, b) => a - b);
  const low = values[0];
  const high = Math.min(values.at(-1), LONGER * values[Math.floor(MOST * (values.length - 1))]);
  return Array.from({ length: high > low ? LEVELS : 1 }, (_, level) => low + ((high - low) * level) / LEVELS);
}

/** @returns {number} the level of a value: 0 to 6. */
export function levelOf(/** @type {number} */ value, /** @type {number[]} */ levels) {
  return Math.max(0, levels.findLastIndex((start) => value >= start));
}

/** @returns the median and the longest step of each rank that made any, in which bin that was, and its share of waiting. */
export function summariesOf(/** @type {Lanes} */ { ranks, times, work, exchange, waiting }) {
  const summaries = ranks.map((rank, i) => {
    const values = times[i].filter(Number.isFinite).sort((a, b) => a - b);
    const [longest, waited] = [values.at(-1), sum(waiting[i]) / (sum(work[i]) + sum(exchange[i]))];
    return { rank, median: medianOf(values), longest, bin: times[i].indexOf(longest), waiting: waited };
  });
  return summaries.filter(({ bin }) => bin >= 0);
}
