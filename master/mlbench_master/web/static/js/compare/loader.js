// The data of a comparison: results, manifests and recorded curves of its runs.

import { getOrNull, query } from "../api.js";
import { getParam } from "../dom.js";
import { CLOCKS, plottable, wholeClock } from "../run/curves.js";
import { byMetric, counterAt, within } from "../series.js";

const MAX_POINTS = 600;
// Maximum number of points of all runs together.
const POINTS_OF_ALL = 40_000;

/**
 * @import { ByMetric } from "../series.js"
 *
 * A comparison, and the manifests of its runs.
 * @typedef {{ comparison: Comparison, manifests: Manifest[] }} Found
 * @typedef {{ x: number[], y: number[], lows?: number[], highs?: number[] }} Columns
 */

/** Fetches data that no longer changes only once. */
export class Loader {
  /** @type {Map<string, any>} responses that no longer change, by path */
  #kept = new Map();

  /** @returns {Promise<Found | null>} the comparison of runs, whose titles are by id; null if one of them was deleted. */
  async compare(/** @type {Map<number, string>} */ titles) {
    const ids = [...titles.keys()];
    const [comparison, ...manifests] = await Promise.all([
      getOrNull(toPath(ids)),
      ...ids.map((id) => this.#get(`/api/runs/${id}/manifest/`, hasEnded)),
    ]);
    if (!comparison || manifests.includes(null)) return null;
    // A comparison has the names that runs were submitted with.
    const results = comparison.results.map((result) => ({ ...result, display_name: titles.get(result.run_id) }));
    return { comparison: { ...comparison, results }, manifests };
  }

  /** @returns {Promise<string[]>} the metrics that any of the runs recorded, without totals. */
  async metrics(/** @type {Manifest[]} */ manifests) {
    const lists = await Promise.all(manifests.map((run) => this.#get(`/api/runs/${run.run_id}/metrics/`, () => hasEnded(run))));
    return plottable([...new Set(lists.flatMap((metrics) => metrics ?? []).map(({ name }) => name))]);
  }

  /** @returns {Promise<Columns[]>} the curve of each run over an axis, in seconds, steps or epochs. */
  columns(/** @type {Found} */ { comparison, manifests }, /** @type {string} */ metric, /** @type {string} */ axis) {
    const points = Math.min(MAX_POINTS, Math.floor(POINTS_OF_ALL / manifests.length));
    return Promise.all(comparison.results.map(async (result, i) => {
      const isInResult = result.target?.metric === metric && result.curve !== null;
      if (isInResult && ["training", "wall"].includes(axis)) return ofResult(result, axis);
      const metrics = [...new Set([metric, CLOCKS[axis] ?? metric])];
      const params = query({ metric_type: "run", metric_filter: metrics, summarize: points });
      const recorded = await this.#get(`/api/metrics/${result.run_id}/${params}`, () => hasEnded(manifests[i]));
      return ofRecorded(byMetric(recorded ?? {}), metric, axis, manifests[i].started_at, result.wall_seconds);
    }));
  }

  async #get(/** @type {string} */ path, /** @type {(response: any) => boolean} */ isLasting) {
    if (this.#kept.has(path)) return this.#kept.get(path);
    const response = await getOrNull(path);
    if (response && isLasting(response)) this.#kept.set(path, response);
    return response;
  }
}

/** @returns {string} the API's path of a comparison. */
export function toPath(/** @type {number[]} */ ids) {
  const criteria = { target: getParam("target") || null, group: getParam("by") || null };
  return `/api/compare/?runs=${ids.join(",")}${query(criteria).replace("?", "&")}`;
}

/** @returns {boolean} whether a run has ended, so that nothing of it can change. */
export function hasEnded(/** @type {Manifest} */ manifest) {
  return manifest.finished_at !== null;
}

/** @returns {Columns} the curve of the target's metric that a result has */
export function ofResult(/** @type {Pick<Result, "curve">} */ { curve }, /** @type {string} */ axis) {
  return finite({ x: axis === "training" ? curve.training_seconds : curve.wall_seconds, y: curve.values });
}

/** @returns {Columns} the curve that the lowest rank of a run recorded from its start to its end, `seconds` later */
export function ofRecorded(/** @type {ByMetric} */ recorded, metric, axis, startedAt, /** @type {number | null} */ seconds = null) {
  const [[rank, all]] = [...(recorded.get(metric) ?? [[null, null]])].sort(([a], [b]) => (a ?? -1) - (b ?? -1));
  const clock = recorded.get(CLOCKS[axis])?.get(rank);
  if (!all || startedAt === null || (axis !== "wall" && !clock)) return { x: [], y: [] };
  const start = Date.parse(startedAt);
  const { times, values: y, lows, highs } = seconds === null ? all : within(all, start, start + 1000 * seconds).series;
  const x = axis === "wall" ? times.map((time) => (time - start) / 1000) : counterAt(wholeClock(axis, clock), times);
  return finite({ x, y, lows, highs });
}

// Without the points that have no place on the axis.
function finite(/** @type {Columns} */ { x, ...columns }) {
  const pick = (/** @type {number[]} */ column) => column?.filter((_, i) => Number.isFinite(x[i]));
  return { x: pick(x), y: pick(columns.y), lows: pick(columns.lows), highs: pick(columns.highs) };
}
