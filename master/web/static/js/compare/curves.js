// Curves of a metric from each run's own start, by one of three clocks. Pure.

import { metric as formatMetric } from "../format.js";
import { between } from "../series.js";
import { CLOCKS } from "./loading.js";
import { labelOf, lookOf } from "./view.js";

// A curve of fewer points shows each of them.
const FEW_POINTS = 40;
// Of more curves, their spreads would cover each other.
const MOST_BANDS = 4;
const NO_COLUMNS = { x: [], y: [] };

/** @typedef {{ x: number[], y: number[], lows?: number[], highs?: number[] }} Columns */

/** @returns {string[]} the metrics by which the results are judged, each once. */
export function goalMetrics(/** @type {object[]} */ results) {
  return [...new Set(results.flatMap((one) => (one.target ? [one.target.metric] : [])))];
}

/** @returns {boolean} whether a result itself holds the curve of a metric by a clock. */
export function isInResult(/** @type {object} */ result, metric, axis) {
  return axis !== "step" && result.target?.metric === metric && result.curve !== null;
}

/** @returns {Columns} the curve that a result holds. */
export function ofResult(/** @type {object} */ { curve }, /** @type {string} */ axis) {
  const x = axis === "training" ? curve.training_seconds : curve.wall_seconds;
  return placed({ x, y: curve.values });
}

/**
 * @returns {Columns} the curve of what a run recorded, of its lowest rank
 * @param {Map<string, Map<number | null, import("../series.js").Series>>} recorded
 * @param {string} metric
 * @param {string} axis
 * @param {string | null} startedAt when the run started
 */
export function ofRecorded(recorded, metric, axis, startedAt) {
  const byRank = recorded.get(metric) ?? new Map();
  const [rank] = [...byRank.keys()].sort((a, b) => (a ?? -1) - (b ?? -1));
  const series = byRank.get(rank);
  if (!series || startedAt === null) return NO_COLUMNS;
  const start = Date.parse(startedAt);
  const clock = recorded.get(CLOCKS[axis])?.get(rank);
  if (axis !== "wall" && !clock) return NO_COLUMNS;
  const x =
    axis === "wall"
      ? series.times.map((time) => (time - start) / 1000)
      : between(clock, series.times);
  return placed({ x, y: series.values, lows: series.lows, highs: series.highs });
}

/**
 * @returns {import("../chart.js").Line[]} a line for each result, an empty one for those that are
 * hidden, so that each keeps its colour
 */
export function toLines(/** @type {object[]} */ results, /** @type {Columns[]} */ columns, hidden) {
  const hasBands = columns.filter(({ x }) => x.length).length <= MOST_BANDS;
  return results.map((result, i) => {
    const { x, y, lows, highs } = hidden.has(result.run_id) ? NO_COLUMNS : columns[i];
    const line = { name: labelOf(result), x, y, ...lookOf(i), points: x.length < FEW_POINTS };
    return hasBands ? { ...line, lows, highs } : line;
  });
}

/** @returns {{ y: number, text: string }[]} the goals that are values of a metric. */
export function toMarks(/** @type {object[]} */ results, /** @type {string} */ metric) {
  const targets = results.map((one) => one.target).filter((one) => one?.metric === metric);
  const values = [...new Set(targets.map((one) => one.value))];
  return values.map((y) => ({ y, text: `goal ${formatMetric(metric, y)}` }));
}

// Without the points whose place the clock does not tell.
function placed(columns) {
  const isThere = columns.x.map((value) => value != null && Number.isFinite(value));
  const pick = (column) => column?.filter((_, i) => isThere[i]);
  return {
    x: pick(columns.x),
    y: pick(columns.y),
    lows: pick(columns.lows),
    highs: pick(columns.highs),
  };
}
