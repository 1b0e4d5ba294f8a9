// The curves of compared runs on a chart: one per run, or the mean of each group.

import { isPercent, metric as formatMetric, metricTitle, percent, spans } from "../format.js";
import { labelOf, LOSSES } from "../records.js";
import { unitOf } from "../run/curves.js";
import { toGroupLines } from "./groups.js";
import { versionsOf } from "./verdict.js";

/**
 * @import { Chart } from "../chart.js"
 * @import { Axes, Line } from "../plot.js"
 * @import { Columns } from "./loader.js"
 */

/** The horizontal axes, in the order in which they are tried, with their titles. */
export const AXES = { training: "Training time", wall: "Wall-clock time", step: "Step", epoch: "Epoch" };
const LETTERS = { seconds: " s", minutes: " min", hours: " h", days: " d" };
// A curve of fewer points shows each of them.
const FEW_POINTS = 40;
// The bands of more curves would cover each other.
const MAX_BANDS = 4;

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

// An accuracy is from 0 to 100 %, whatever the interval of its mean.
function bounded(/** @type {Line} */ line) {
  return { ...line, lows: line.lows.map((low) => Math.max(0, low)), highs: line.highs.map((high) => Math.min(100, high)) };
}

/** @returns {{ y: number, text: string }[]} the targets that are values of a metric. */
export function toMarks(/** @type {Result[]} */ results, /** @type {string} */ metric) {
  const targets = results.map((result) => result.target).filter((target) => target?.metric === metric);
  const values = [...new Set(targets.map((target) => target.value))];
  return values.map((y) => ({ y, text: `target ${formatMetric(metric, y)}` }));
}

/** @returns {string[]} the metrics that are drawn by default: that of the target, and the training loss. */
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
