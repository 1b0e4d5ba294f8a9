// The curves of compared runs on a chart: one per run, or the mean of each group with its interval of 95 %.

import { byId } from "../dom.js";
import { isPercent, metric as formatMetric, metricTitle, percent, plural, spans } from "../format.js";
import { extentOf, smoothed } from "../plot.js";
import { labelOf, LOSSES } from "../records.js";
import { unitOf } from "../run/curves.js";
import { mean, sum } from "../series.js";
import { versionsOf } from "./verdict.js";

/**
 * @import { Chart } from "../chart.js"
 * @import { Axes, Line } from "../plot.js"
 * @import { Columns } from "./loader.js"
 * @typedef {{ x: number[], y: number[] }} Curve
 */

/** The horizontal axes, in the order in which they are tried, with their titles. */
export const AXES = { training: "Training time", wall: "Wall-clock time", step: "Step", epoch: "Epoch" };
const LETTERS = { seconds: " s", minutes: " min", hours: " h", days: " d" };
// A curve of fewer points shows each of them.
const FEW_POINTS = 40;
// The bands of more curves would cover each other.
const MAX_BANDS = 4;
// A mean of more places than pixels shows nothing more.
const MAX_PLACES = 2000;
// As mlbench/evaluation/statistics.py: fewer runs have no interval of their mean.
const ENOUGH = 3;

/**
 * Draw a metric of runs over an axis: a curve of each result, whose columns are in seconds, steps or epochs, or
 * else the means of groups.
 */
export function drawCurves(
  /** @type {Chart} */ chart,
  /** @type {{ metric: string, axis: string, results: Result[], columns: Columns[] }} */ { metric, axis, results, columns },
  /** @type {Group[] | null} */ groups,
  /** @type {(id: number) => object} */ styleOf,
  /** @type {Axes} */ more = {},
) {
  const longest = Math.max(0, ...columns.map(({ x }) => x.at(-1) ?? 0));
  const { seconds, name } = ["training", "wall"].includes(axis) ? unitOf(longest) : { seconds: 1, name: "" };
  const scaled = columns.map((column) => ({ ...column, x: column.x.map((at) => at / seconds) }));
  const lines = groups ? toGroupLines(groups, results, scaled, more, styleOf) : toLines(results, scaled, styleOf);
  chart.draw(groups && isPercent(metric) ? lines.map(bounded) : lines, {
    x: name ? `${AXES[axis]} (${name})` : AXES[axis],
    y: metricTitle(metric),
    xSuffix: LETTERS[name],
    isBare: true,
    shared: { axis, unit: seconds },
    ...more,
    ySuffix: isPercent(metric) ? " %" : "",
    marks: toMarks(results, metric),
    ...(groups && { smoothing: 0 }), // Their runs are smoothed.
  });
}

/** @returns {Line[]} one per result. */
export function toLines(/** @type {Result[]} */ results, /** @type {Columns[]} */ columns, /** @type {(id: number) => object} */ styleOf) {
  return results.map((result, i) => {
    const { lows, highs, ...curve } = columns[i];
    const band = columns.length <= MAX_BANDS && { lows, highs };
    const points = curve.x.length < FEW_POINTS;
    return { name: labelOf(result), keys: [result.run_id], ...curve, ...band, ...styleOf(result.run_id), points };
  });
}

// An accuracy is from 0 to 100 %, even if the interval of its mean is wider.
const bounded = (/** @type {Line} */ { lows, highs, ...line }) =>
  ({ ...line, lows: lows.map((low) => Math.max(0, low)), highs: highs.map((high) => Math.min(100, high)) });

/**
 * @returns {Line[]} the mean of each group that has curves, with its interval, and its runs behind; they are
 *   smoothed before the mean is taken. A group has the style of its first run.
 */
export function toGroupLines(/** @type {Group[]} */ groups, /** @type {Result[]} */ results, /** @type {Curve[]} */ curves, axes, styleOf) {
  const extent = extentOf(curves.map(({ x }) => x), axes.xType === "log");
  const lines = groups.map(({ label, run_ids: ids }) => {
    const members = results.map(({ run_id: id }, i) => ({ id, curve: curves[i] })).filter(({ id }) => ids.includes(id));
    const behind = members.filter(({ curve }) => curve.x.length).map(({ curve: { x, y } }) => ({ x, y }));
    const smooth = behind.map((curve) => ({ x: curve.x, y: smoothed(curve, axes, extent).smooth ?? curve.y }));
    const keys = members.map(({ id }) => id);
    const name = `${label} (${plural(behind.length, "run")})`;
    return { name, keys, ...styleOf(keys[0]), behind, ...meanOf(smooth) };
  });
  return lines.filter(({ x }) => x.length);
}

/**
 * @returns the mean of curves at each place at which any of them has a point, over those that are between their
 *   ends there, linearly interpolated; its interval of 95 %, by Student's t; and of how many curves it is
 */
export function meanOf(/** @type {Curve[]} */ curves) {
  // The quantiles of Student's t by degrees of freedom, which templates/_comparison.html has.
  const quantiles = JSON.parse(byId("quantiles").textContent);
  const whole = curves.map(forward).filter(({ x }) => x.length);
  const places = [...new Set(whole.flatMap(({ x }) => x))].sort((a, b) => a - b);
  const every = Math.ceil(places.length / MAX_PLACES);
  const x = places.filter((_, i) => i % every === 0 || i === places.length - 1);
  const points = x.map((place) => {
    const values = whole.map((curve) => valueAt(curve, place)).filter(Number.isFinite);
    const middle = mean(values);
    const variance = sum(values.map((value) => (value - middle) ** 2)) / (values.length - 1);
    const half = values.length >= ENOUGH ? quantiles[values.length - 2] * Math.sqrt(variance / values.length) : NaN;
    return { middle, half, count: values.length };
  });
  return {
    x,
    y: points.map(({ middle }) => middle),
    lows: points.map(({ middle, half }) => middle - half),
    highs: points.map(({ middle, half }) => middle + half),
    counts: points.map(({ count }) => count),
  };
}

// The finite points. If x decreases, as after a restart, only the points that counted in the end.
function forward(/** @type {Curve} */ { x, y }) {
  let next = Infinity;
  const isKept = x.map(() => false);
  for (let i = x.length - 1; i >= 0; i--) {
    isKept[i] = x[i] < next && Number.isFinite(y[i]);
    if (isKept[i]) next = x[i];
  }
  return { x: x.filter((_, i) => isKept[i]), y: y.filter((_, i) => isKept[i]) };
}

/** @returns {number} a curve's value at a place, interpolated; NaN beyond its ends */
function valueAt(/** @type {Curve} */ { x, y }, /** @type {number} */ place) {
  const i = x.findIndex((at) => at >= place);
  if (x[i] === place) return y[i];
  return y[i - 1] + ((place - x[i - 1]) / (x[i] - x[i - 1])) * (y[i] - y[i - 1]);
}

/** @returns {{ y: number, text: string }[]} the targets that are values of a metric. */
export function toMarks(/** @type {Result[]} */ results, /** @type {string} */ metric) {
  const targets = results.map((result) => result.target).filter((target) => target?.metric === metric);
  const values = [...new Set(targets.map((target) => target.value))];
  return values.map((y) => ({ y, text: `target ${formatMetric(metric, y)}` }));
}

/** @returns {string[]} the metrics that are drawn by default: the target's metric and the training loss. */
export function defaultsOf(/** @type {string[]} */ targets, /** @type {string[]} */ offered) {
  const countOf = (/** @type {string} */ target) => targets.filter((other) => other === target).length;
  const [main] = targets.toSorted((a, b) => countOf(b) - countOf(a));
  const loss = LOSSES.find((name) => offered.includes(name) && name !== main);
  const metrics = [main ?? offered.find((name) => metricTitle(name).toLowerCase().includes("accuracy")), loss].filter(Boolean);
  return metrics.length ? metrics : offered.slice(0, 1);
}

/** @returns {string} the caption of a figure: runs, seeds, versions, and CPU contention. */
export function captionOf(/** @type {Result[]} */ results, /** @type {Manifest[]} */ manifests) {
  const numbers = (/** @type {number[]} */ values) => spans([...new Set(values)].sort((a, b) => a - b));
  const seeds = numbers(manifests.map(({ seed }) => seed).filter((seed) => seed !== null));
  const shares = results.map(({ contention_share: share }) => share).filter((share) => share !== null);
  const parts = [
    `${results.length === 1 ? "Run" : "Runs"} ${numbers(results.map(({ run_id }) => run_id))}`,
    seeds && `${/[,–]/.test(seeds) ? "seeds" : "seed"} ${seeds}`,
    versionsOf(manifests),
    shares.length && `CPU contention up to ${percent(Math.max(...shares))}`,
  ];
  return `${parts.filter(Boolean).join("; ")}.`;
}
