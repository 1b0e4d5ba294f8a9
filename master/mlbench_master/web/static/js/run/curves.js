// Which of a run's metrics and ranks are drawn, in which charts, and over which axis.

import { metricTitle } from "../format.js";
import { lowerBound } from "../lines.js";
import { LOSSES, PHASES } from "../records.js";
import { EMPTY, areSame, combine, counterAt, longest, mapColumns, mean, sum } from "../series.js";

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
const UNITS = [
  { seconds: 86_400, from: 2 * 86_400, name: "days" },
  { seconds: 3600, from: 2 * 3600, name: "hours" },
  { seconds: 60, from: 120, name: "minutes" },
  { seconds: 1, from: 0, name: "seconds" },
];

/**
 * @param {string[]} metrics that a run has recorded
 * @param {string | null} target the metric of its target
 * @returns {{ title: string, metrics: string[] }[]} the charts that are shown by default
 */
export function chartsOf(metrics, target) {
  const curves = plottable(metrics);
  const losses = curves.filter((name) => LOSSES.includes(name));
  const accuracies = curves.filter((name) => ACCURACY.test(name) && hasRankOf(name, target));
  const isR2 = accuracies.every((name) => /R2$/.test(name));
  const charts = [
    { title: isR2 ? "R²" : "Accuracy", metrics: accuracies },
    { title: "Loss", metrics: losses },
  ];
  const isShown = charts.some((chart) => chart.metrics.includes(target));
  if (target && curves.includes(target) && !isShown) charts.unshift({ title: metricTitle(target), metrics: [target] });
  return charts.filter((chart) => chart.metrics.length);
}

/** @returns {string[]} the metrics that can be drawn as curves: all but totals. */
export function plottable(/** @type {string[]} */ metrics) {
  return metrics.filter((name) => !TOTALS.test(name) && !PHASE_TOTALS.has(name)).sort();
}

// Top-5 accuracies are close to 100 %, and would flatten the curves of top-1.
function hasRankOf(name, target) {
  const kind = (text) => /@(\d+)$/.exec(text ?? "")?.[1] ?? "1";
  return kind(name) === kind(target);
}

/** @returns {boolean} whether all ranks are chosen. */
export function isOfAll(/** @type {string} */ chosen) {
  return chosen === ALL || chosen === EACH;
}

/**
 * @param {string[]} metrics
 * @param {string} chosen a rank, `ALL` or `EACH`
 * @param {(metric: string) => boolean} hasRanks
 * @returns {string[]} the names to ask the API for
 */
export function filtersOf(metrics, chosen, hasRanks) {
  const isWhole = (metric) => isOfAll(chosen) || !hasRanks(metric);
  return metrics.map((metric) => (isWhole(metric) ? metric : `${metric} @ ${chosen}`));
}

/**
 * @param {string} metric
 * @param {Map<number | null, Series>} ranks its series by rank
 * @param {string} chosen a rank, `ALL` or `EACH`
 * @returns {{ name: string, rank: number | null, series: Series }[]} the curves to draw; one if all
 *   ranks recorded the same
 */
export function curvesOf(metric, ranks, chosen) {
  const isWanted = (rank) => isOfAll(chosen) || rank === Number(chosen) || rank === null;
  const wanted = [...ranks].filter(([rank]) => isWanted(rank));
  if (!wanted.length) return [];
  const all = wanted.map(([, series]) => series);
  const grid = longest(all);
  const [rank] = wanted.find(([, series]) => series === grid);
  if (areSame(all)) return [{ name: metric, rank, series: grid }];
  if (chosen === ALL) return [{ name: `${metric}, mean`, rank, series: combine(grid, all, mean) }];
  return wanted.map(([rank, series]) => ({
    name: rank === null ? metric : `${metric}, rank ${rank}`,
    rank,
    series,
  }));
}

/**
 * A horizontal axis: where on it moments of a rank are, or of any rank.
 * @typedef {{ title: string, shared: import("../zoom.js").Shared,
 *   place: (times: number[], rank?: number | null) => number[] }} Axis
 */

/**
 * @param {string | null} startedAt when the run began
 * @param {number} until the last millisecond that is shown
 * @returns {Axis} the time since the start, in a unit that suits its length
 */
export function timeAxis(startedAt, until) {
  const start = startedAt ? Date.parse(startedAt) : until;
  const { seconds, name } = unitOf((until - start) / 1000);
  return {
    title: `Wall-clock time (${name})`,
    shared: { axis: "wall", unit: seconds },
    place: (times) => times.map((time) => (time - start) / 1000 / seconds),
  };
}

/**
 * @param {string} axis one of `CLOCKS`
 * @param {Map<number | null, Series>} ranks the axis's clock, as each rank has recorded it
 * @returns {Axis}
 */
export function clockAxis(axis, ranks) {
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
 * Complete a clock: epochs are recorded as they begin, and the last is taken to last as long as the
 * one before; training time is recorded for the first time some steps after its zero.
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
export function unitOf(/** @type {number} */ seconds) {
  return UNITS.find(({ from }) => seconds >= from) ?? UNITS.at(-1);
}

/**
 * Compute the samples per second of all ranks from the totals that they record.
 * @param {Map<number | null, Series>} samples totals by rank
 * @param {Map<number | null, Series>} clocks seconds of training by rank; where they are missing,
 *   the time itself is used
 * @returns {{ times: number[], values: number[] }} each value holds until the next time
 */
export function throughput(samples, clocks) {
  const ranks = [...samples].map(([rank, series]) => intervals(series, clocks.get(rank)));
  // A rank that was stopped may not have recorded its last samples.
  const end = Math.min(...ranks.map((rank) => rank.at(-1)?.to ?? Infinity));
  const most = ranks.reduce((best, rank) => (rank.length > best.length ? rank : best), []);
  const grid = most.filter(({ from, to }) => (from + to) / 2 <= end);
  const ends = ranks.map((rank) => rank.map(({ to }) => to));
  const times = [];
  const values = [];
  for (const { from, to } of grid) {
    times.push(from);
    values.push(sum(ranks.map((rank, i) => rateAt(rank, ends[i], (from + to) / 2))));
  }
  if (grid.length) {
    times.push(grid.at(-1).to);
    values.push(values.at(-1));
  }
  return { times, values };
}

function intervals(samples, clock) {
  const { times, lows: totals } = samples;
  const seconds = clock ? counterAt(clock, times) : times.map((time) => time / 1000);
  const rates = [];
  for (let i = 1; i < times.length; i++) {
    const rate = (totals[i] - totals[i - 1]) / (seconds[i] - seconds[i - 1]);
    // A restart resets the totals.
    if (rate > 0 && Number.isFinite(rate)) rates.push({ from: times[i - 1], to: times[i], rate });
  }
  return rates;
}

function rateAt(rates, ends, time) {
  const interval = rates[lowerBound(ends, time)];
  return interval && interval.from <= time ? interval.rate : 0;
}
