// Which of a run's metrics and ranks are drawn, in which charts, and over which axis.

import { metricTitle } from "../format.js";
import { LOSSES, PHASES } from "../records.js";
import { EMPTY, areSame, combine, counterAt, filter, longest, mapColumns, mean, sum } from "../series.js";

/** @import { Series } from "../series.js" */

/** The metrics that are clocks of horizontal axes; wall-clock time does not need one. */
export const CLOCKS = { training: "train_seconds", step: "step", epoch: "epoch" };
/** The choice of all ranks as their mean and range. */
export const ALL = "all";
/** The choice of all ranks as a line each. */
export const EACH = "each";

const TOTALS = /^(step|epoch|samples|train_seconds|network_(sent|received)_bytes)$/;
const PHASE_TOTALS = new Set(PHASES.map((phase) => `${phase}_seconds`));
const ACCURACY = /(^|_)(Prec@\d+|R2|acc|accuracy)$/;
// Totals are also recorded when a phase ends, but the rate of a few steps is mostly noise.
const MIN_RATE_SECONDS = 0.5;
const UNITS = Object.entries({ days: 86_400, hours: 3600, minutes: 60 });

/** @returns {{ title: string, metrics: string[] }[]} the charts of a run's metrics that are shown by default. */
export function chartsOf(/** @type {string[]} */ metrics, /** @type {string | null} */ target) {
  const curves = plottable(metrics);
  const losses = curves.filter((name) => LOSSES.includes(name));
  // Top-5 accuracies are close to 100 %, and would flatten the curves of top-1.
  const kindOf = (text) => /@(\d+)$/.exec(text ?? "")?.[1] ?? "1";
  const accuracies = curves.filter((name) => ACCURACY.test(name) && kindOf(name) === kindOf(target));
  const isR2 = accuracies.every((name) => /R2$/.test(name));
  const others = [target].filter((name) => curves.includes(name) && ![...accuracies, ...losses].includes(name));
  const charts = [
    ...others.map((name) => ({ title: metricTitle(name), metrics: [name] })),
    { title: isR2 ? "R²" : "Accuracy", metrics: accuracies },
    { title: "Loss", metrics: losses },
  ];
  return charts.filter((chart) => chart.metrics.length);
}

/** @returns {string[]} the metrics that can be drawn as curves: all but totals. */
export function plottable(/** @type {string[]} */ metrics) {
  return metrics.filter((name) => !TOTALS.test(name) && !PHASE_TOTALS.has(name)).sort();
}

/** @returns {boolean} whether all ranks are chosen. */
export function isOfAll(/** @type {string} */ chosen) {
  return chosen === ALL || chosen === EACH;
}

/**
 * @returns {{ name: string, rank: number | null, series: Series }[]} the curves to draw for a metric
 *   with a series per rank; a single curve if all ranks recorded the same values
 */
export function curvesOf(/** @type {string} */ metric, /** @type {Map<number | null, Series>} */ ranks, /** @type {string} */ chosen) {
  const wanted = [...ranks].filter(([rank]) => isOfAll(chosen) || rank === Number(chosen) || rank === null);
  if (!wanted.length) return [];
  const all = wanted.map(([, series]) => series);
  const grid = longest(all);
  const [rank] = wanted.find(([, series]) => series === grid);
  if (areSame(all)) return [{ name: metric, rank, series: grid }];
  if (chosen === ALL) return [{ name: `${metric}, mean`, rank, series: combine(grid, all, mean) }];
  return wanted.map(([rank, series]) => ({ name: rank === null ? metric : `${metric}, rank ${rank}`, rank, series }));
}

/**
 * A horizontal axis: where on it moments of a rank are, or of any rank.
 * @typedef {{ title: string, shared: import("../look.js").Shared,
 *   place: (times: number[], rank?: number | null) => number[] }} Axis
 */

/** @returns {Axis} the time since the start, in a unit that suits its length. */
export function timeAxis(/** @type {string | null} */ startedAt, /** @type {number} */ until) {
  const start = startedAt ? Date.parse(startedAt) : until;
  const { seconds, name } = unitOf((until - start) / 1000);
  return {
    title: `Wall-clock time (${name})`,
    shared: { axis: "wall", unit: seconds },
    place: (times) => times.map((time) => (time - start) / 1000 / seconds),
  };
}

/** @returns {Axis} one of `CLOCKS`, as each rank has recorded it. */
export function clockAxis(/** @type {string} */ axis, /** @type {Map<number | null, Series>} */ ranks) {
  const [any = EMPTY] = ranks.values();
  const { seconds, name } = axis === "training" ? unitOf(any.values.at(-1) ?? 0) : { seconds: 1, name: "" };
  const clockOf = (rank) => wholeClock(axis, ranks.get(rank) ?? any);
  return {
    title: { training: `Training time (${name})`, step: "Step", epoch: "Epoch" }[axis],
    shared: { axis, unit: seconds },
    place: (times, rank = null) => counterAt(clockOf(rank), times).map((value) => value / seconds),
  };
}

/**
 * Complete a clock. Epochs are recorded when they begin, so assume that the last epoch lasts as long
 * as the previous one. Training time is first recorded some steps after its zero.
 * @returns {Series}
 */
export function wholeClock(/** @type {string} */ axis, /** @type {Series} */ clock) {
  const [before, last] = clock.times.slice(-2);
  if (axis === "epoch" && last !== undefined) {
    const value = clock.values.at(-1) + 1;
    return mapColumns(clock, (column, name) => [...column, name === "times" ? 2 * last - before : value]);
  }
  const [seconds] = clock.values;
  if (axis !== "training" || !seconds) return clock;
  return mapColumns(clock, (column, name) => [name === "times" ? column[0] - seconds * 1000 : 0, ...column]);
}

/** @returns {{ seconds: number, name: string }} the unit in which a time of that length is shown. */
export function unitOf(/** @type {number} */ length) {
  const [name, seconds] = UNITS.find(([, unit]) => length >= 2 * unit) ?? ["seconds", 1];
  return { seconds, name };
}

/**
 * Compute the samples per second of all ranks from the totals that they record. Without a rank's
 * seconds of training, the time itself is used.
 * @param {Map<number | null, Series>} samples
 * @param {Map<number | null, Series>} clocks
 * @returns {Series} each value is of the time before it
 */
export function throughput(samples, clocks) {
  const rates = [...samples].map(([rank, { times, lows: totals }]) => {
    const seconds = clocks.has(rank) ? counterAt(clocks.get(rank), times) : times.map((time) => time / 1000);
    const least = Math.min(MIN_RATE_SECONDS, (seconds.at(-1) - seconds[0]) / 20);
    let last = 0;
    const values = totals.map((total, i) => {
      const [samples, took] = [total - totals[last], seconds[i] - seconds[last]];
      if (took >= 0 && took < least) return NaN;
      last = i;
      return samples / took;
    });
    // A restart resets the totals.
    const isRate = values.map((value) => value > 0 && Number.isFinite(value));
    return filter({ times, values, lows: values, highs: values }, (i) => isRate[i]);
  });
  // A rank that was stopped may not have recorded its last samples.
  const end = Math.min(...rates.map(({ times }) => times.at(-1) ?? Infinity));
  const grid = longest([EMPTY, ...rates]);
  return combine({ ...grid, times: grid.times.filter((time) => time <= end) }, rates, sum);
}
