// The columns of a run's metric over a horizontal axis, each run from its own start.

import { CLOCKS, wholeClock } from "../run/curves.js";
import { interpolate, within } from "../series.js";

/**
 * @import { Result } from "../records.js"
 * @import { Found, Loader } from "../compare/loader.js"
 * @typedef {{ x: number[], y: number[], lows?: number[], highs?: number[] }} Columns
 */

/** The horizontal axes, in the order in which they are tried, with their titles. */
export const AXES = { training: "Training time", wall: "Wall-clock time", step: "Step", epoch: "Epoch" };
const NO_COLUMNS = { x: [], y: [] };

/**
 * @param {Loader} loader
 * @param {Found} found
 * @param {string} metric
 * @param {string} axis one of `AXES`
 * @returns {Promise<Columns[]>} the columns of each run, in seconds, steps or epochs
 */
export function columnsOf(loader, { comparison, manifests }, metric, axis) {
  return Promise.all(
    comparison.results.map(async (result, i) => {
      const isInResult = result.target?.metric === metric && result.curve !== null;
      if (isInResult && ["training", "wall"].includes(axis)) return ofResult(result, axis);
      const recorded = await loader.recorded(manifests[i], metric, axis);
      return ofRecorded(recorded, metric, axis, manifests[i].started_at, result.wall_seconds);
    }),
  );
}

function ofResult(/** @type {Result} */ { curve }, axis) {
  const x = axis === "training" ? curve.training_seconds : curve.wall_seconds;
  return finite({ x, y: curve.values });
}

/**
 * @param {import("../series.js").ByMetric} recorded
 * @param {string} metric
 * @param {string} axis
 * @param {string | null} startedAt when the run started
 * @param {number | null} [seconds] how long it has run
 * @returns {Columns} the curve that the run's lowest rank recorded
 */
export function ofRecorded(recorded, metric, axis, startedAt, seconds = null) {
  const byRank = recorded.get(metric) ?? new Map();
  const [rank] = [...byRank.keys()].sort((a, b) => (a ?? -1) - (b ?? -1));
  const all = byRank.get(rank);
  if (!all || startedAt === null) return NO_COLUMNS;
  const start = Date.parse(startedAt);
  const series = seconds === null ? all : within(all, start, start + 1000 * seconds).series;
  const clock = recorded.get(CLOCKS[axis])?.get(rank);
  if (axis !== "wall" && !clock) return NO_COLUMNS;
  const x =
    axis === "wall"
      ? series.times.map((time) => (time - start) / 1000)
      : interpolate(wholeClock(axis, clock), series.times);
  return finite({ x, y: series.values, lows: series.lows, highs: series.highs });
}

// Without the points that have no place on the axis.
function finite(/** @type {Columns} */ columns) {
  const isFinite = columns.x.map((value) => value != null && Number.isFinite(value));
  const pick = (column) => column?.filter((_, i) => isFinite[i]);
  const { x, y, lows, highs } = columns;
  return { x: pick(x), y: pick(y), lows: pick(lows), highs: pick(highs) };
}
