// Time series as columns of numbers: computations on them, and a function that fetches all points, then new ones.

import { get } from "./api.js";

/**
 * Columns of the same length: times in Unix milliseconds, values, and for points that stand for
 * several samples the smallest and the largest of them (otherwise the value itself).
 * @typedef {{ times: number[], values: number[], lows: number[], highs: number[] }} Series
 *
 * Series by metric and rank; null is the rank of a series without one.
 * @typedef {Map<string, Map<number | null, Series>>} ByMetric
 */

// The master receives the samples of different ranks in any order.
const OVERLAP_MS = 10_000;
// Samples that come even later, as from a worker that was cut off, are found by a full reload.
const RELOAD_MS = 60_000;
let expiredAt = 0;

/** A series without points. */
export const EMPTY = { times: [], values: [], lows: [], highs: [] };

/** @returns {Series} the API's points as columns; NaN for values that are not numbers. */
export function toSeries(/** @type {Point[]} */ points) {
  const values = points.map((point) => toNumber(point.value));
  return {
    times: points.map((point) => Date.parse(point.date)),
    values,
    lows: points.map((point, i) => (point.min == null ? values[i] : toNumber(point.min))),
    highs: points.map((point, i) => (point.max == null ? values[i] : toNumber(point.max))),
  };
}

/** @returns {ByMetric} a run's metrics as the API names them, such as `train_loss @ 0`. */
export function byMetric(/** @type {Record<string, Point[]>} */ answer) {
  const metrics = new Map();
  for (const [name, points] of Object.entries(answer)) {
    const [, metric, rank] = /^(.*) @ (\d+)$/s.exec(name) ?? [name, name, null];
    if (!metrics.has(metric)) metrics.set(metric, new Map());
    metrics.get(metric).set(rank && Number(rank), toSeries(points));
  }
  return metrics;
}

/** @returns {Series} with each column changed. */
export function mapColumns(/** @type {Series} */ series, /** @type {(column: number[], name: string) => number[]} */ change) {
  return /** @type {any} */ (Object.fromEntries(Object.entries(series).map(([name, column]) => [name, change(column, name)])));
}

/** @returns {Series} only the points at indices that are kept. */
export function filter(/** @type {Series} */ series, /** @type {(i: number) => boolean} */ isKept) {
  return mapColumns(series, (column) => column.filter((_, i) => isKept(i)));
}

/**
 * Leave out the points with foreign dates, which would stretch an axis by years. A worker whose clock
 * is wrong has no others: then all stay. A tenth of the span more, at least a second, is inside.
 * @returns {{ series: Series, outside: number }} how many points are left out
 */
export function within(/** @type {Series} */ series, /** @type {number} */ from, /** @type {number} */ until) {
  const margin = Math.max(1000, (until - from) / 10);
  const isInside = series.times.map((time) => time >= from - margin && time <= until + margin);
  const outside = isInside.filter((inside) => !inside).length;
  if (!outside || outside === isInside.length) return { series, outside: 0 };
  return { series: filter(series, (i) => isInside[i]), outside };
}

/** @returns {Series} `first`, followed by the points of `second` that come after its end. */
export function append(/** @type {Series} */ first, /** @type {Series} */ second) {
  const last = first.times.at(-1) ?? -Infinity;
  return mapColumns(first, (column, name) => column.concat(second[name].filter((_, i) => second.times[i] > last)));
}

/** @returns {Series} the points of both, in order of time. */
export function merged(/** @type {Series} */ first, /** @type {Series} */ second) {
  const both = mapColumns(first, (column, name) => column.concat(second[name]));
  const order = [...both.times.keys()].sort((i, j) => both.times[i] - both.times[j]);
  return mapColumns(both, (column) => order.map((i) => column[i]));
}

/** @returns {Series} the growth of a counter per second; a counter that was reset grew from 0. */
export function rate(/** @type {Series} */ counter) {
  const times = counter.times.slice(1);
  const values = counter.values.slice(1).map((value, i) => {
    const growth = value - counter.values[i];
    return (growth >= 0 ? growth : value) / ((times[i] - counter.times[i]) / 1000);
  });
  return { times, values, lows: values, highs: values };
}

/**
 * Interpolate a counter or clock, such as the training seconds or the step, at each of `times`: by its
 * lows, because a point that stands for several samples has the time of the smallest. Before its first
 * point it is NaN, after its last point it stands still, and before a point at which it falls (a
 * restart) it stands still, too.
 * @returns {number[]}
 */
export function counterAt(/** @type {Pick<Series, "times" | "lows">} */ { times: known, lows }, /** @type {number[]} */ times) {
  let i = -1;
  return times.map((time) => {
    while (i + 1 < known.length && known[i + 1] <= time) i += 1;
    if (i < 0) return NaN;
    const growth = lows[i + 1] - lows[i];
    return growth > 0 ? lows[i] + (growth * (time - known[i])) / (known[i + 1] - known[i]) : lows[i];
  });
}

export function mean(/** @type {number[]} */ values) {
  return sum(values) / values.length;
}

export function sum(/** @type {number[]} */ values) {
  return values.reduce((total, value) => total + value, 0);
}

/** @returns {number} the median of sorted values. */
export const medianOf = (/** @type {number[]} */ sorted) => (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;

/** @returns {Series} the series with the most points. */
export function longest(/** @type {Series[]} */ all) {
  return all.reduce((best, series) => (series.times.length > best.times.length ? series : best));
}

/**
 * Combine several series into one: at each time of `grid`, the nearest point of each series, unless
 * it is farther away than the neighbouring points of the grid.
 * @returns {Series} the lows and highs are the range of all series
 */
export function combine(/** @type {Series} */ grid, /** @type {Series[]} */ all, /** @type {(values: number[]) => number} */ reduce) {
  const { times } = grid;
  const joined = { times, values: [], lows: [], highs: [] };
  const cursors = all.map((series) => ({ series, at: 0 }));
  times.forEach((time, i) => {
    for (const cursor of cursors) {
      const away = (/** @type {number} */ at) => Math.abs(cursor.series.times[at] - time);
      while (away(cursor.at + 1) <= away(cursor.at)) cursor.at += 1;
    }
    const gaps = [time - times[i - 1], times[i + 1] - time].filter(Number.isFinite);
    const reach = gaps.length ? Math.max(...gaps) : Infinity;
    const points = cursors.filter(({ series, at }) => Number.isFinite(series.values[at]) && Math.abs(series.times[at] - time) <= reach);
    const column = (name) => points.map(({ series, at }) => series[name][at]);
    joined.values.push(points.length ? reduce(column("values")) : NaN);
    joined.lows.push(points.length ? Math.min(...column("lows")) : NaN);
    joined.highs.push(points.length ? Math.max(...column("highs")) : NaN);
  });
  return joined;
}

/** @returns {boolean} whether all series have the same values, except for one point at the end. */
export function areSame(/** @type {Series[]} */ all) {
  const length = Math.min(...all.map(({ values }) => values.length));
  const common = all[0].values.slice(0, length);
  // A rank may record its last value a moment later.
  return all.every(({ values }) => values.length <= length + 1 && common.every((value, i) => value === values[i]));
}

function toNumber(text) {
  if (text === "+Inf") return Infinity;
  if (text === "-Inf") return -Infinity;
  return text.trim() === "" ? NaN : Number(text);
}

/** Fetch all series again, because their earlier points have changed. */
export function expire() {
  expiredAt = performance.now();
}

/** Some series of a run, kept up to date; `points` of each curve, about. */
export class SeriesStore {
  #filters = [];
  #reloadedAt = 0;
  /** @type {ByMetric} */
  series = new Map();

  constructor(/** @type {number} */ runId, /** @type {number} */ points, /** @type {"final" | "discarded"} */ lineage = "final") {
    this.path = `/api/metrics/${runId}/`;
    this.lineage = lineage;
    this.points = points;
  }

  /** Bring the series of these metrics, or single series, up to date; or fetch all of them again. */
  async refresh(/** @type {string[]} */ filters, /** @type {boolean} */ isReload) {
    const all = [...this.series.values()].flatMap((ranks) => [...ranks.values()]);
    const newest = Math.max(0, ...all.map(({ times }) => times.at(-1) ?? 0));
    // New points of an active run are not downsampled, so that a curve grows.
    const isLong = all.some(({ times }) => times.length > 2 * this.points);
    const isOther = filters.some((filter) => !this.#filters.includes(filter));
    const askedAt = performance.now();
    const isOld = askedAt - this.#reloadedAt > RELOAD_MS || this.#reloadedAt < expiredAt;
    const isWhole = isReload || isOther || isOld || isLong || !newest;
    const answer = await get(this.path, {
      metric_type: "run",
      metric_filter: filters,
      added: false,
      lineage: this.lineage,
      summarize: this.points,
      since: isWhole ? null : new Date(newest - OVERLAP_MS).toISOString(),
    });
    this.#filters = filters;
    const fetched = byMetric(answer);
    if (isWhole) [this.series, this.#reloadedAt] = [fetched, askedAt];
    else for (const [metric, ranks] of fetched) {
      const known = this.series.get(metric) ?? new Map();
      this.series.set(metric, known);
      for (const [rank, series] of ranks) known.set(rank, append(known.get(rank) ?? EMPTY, series));
    }
  }
}
