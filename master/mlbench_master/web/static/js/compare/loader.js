// The data of a comparison: results, manifests and recorded curves of its runs.

import { get, getOrNull, query } from "../api.js";
import { LOSSES } from "../records.js";
import { CLOCKS, plottable, wholeClock } from "../run/curves.js";
import { byMetric, counterAt, within } from "../series.js";

const MAX_POINTS = 600;
// Of all runs together.
const POINTS_OF_ALL = 40_000;

/**
 * @import { Comparison, Manifest, Result } from "../records.js"
 * @import { ByMetric } from "../series.js"
 *
 * A comparison, and the manifests of its runs.
 * @typedef {{ comparison: Comparison, manifests: Manifest[] }} Found
 * @typedef {{ x: number[], y: number[], lows?: number[], highs?: number[] }} Columns
 */

/** Fetches data that no longer changes only once. */
export class Loader {
  /** @type {Map<string, any>} */
  #kept = new Map();

  /**
   * @param {Map<number, string>} titles of the runs, by id
   * @param {string} target
   * @returns {Promise<Found | null>} null if one of the runs was deleted
   */
  async compare(titles, target) {
    const ids = [...titles.keys()];
    const [comparison, ...manifests] = await Promise.all([getOrNull(toPath(ids, target)), ...ids.map((id) => this.#manifest(id))]);
    if (!comparison || manifests.includes(null)) return null;
    // A comparison has the names that runs were submitted with.
    const results = comparison.results.map((result) => ({ ...result, display_name: titles.get(result.run_id) }));
    return { comparison: { ...comparison, results }, manifests };
  }

  /** @returns {Promise<string[]>} the metrics that the runs recorded, as `inOrder` has them. */
  async metrics(/** @type {Manifest[]} */ manifests) {
    const series = await Promise.all(manifests.map((manifest) => this.#series(manifest, { last_n: 1 })));
    return inOrder(series.map((byName) => [...byName.keys()]));
  }

  /** @returns {Promise<Columns[]>} the curve of each run over an axis, in seconds, steps or epochs. */
  columns(/** @type {Found} */ { comparison, manifests }, /** @type {string} */ metric, /** @type {string} */ axis) {
    const points = Math.min(MAX_POINTS, Math.floor(POINTS_OF_ALL / manifests.length));
    return Promise.all(comparison.results.map(async (result, i) => {
      const isInResult = result.target?.metric === metric && result.curve !== null;
      if (isInResult && ["training", "wall"].includes(axis)) return ofResult(result, axis);
      const metrics = [...new Set([metric, CLOCKS[axis] ?? metric])];
      const recorded = await this.#series(manifests[i], { metric_filter: metrics, summarize: points });
      return ofRecorded(recorded, metric, axis, manifests[i].started_at, result.wall_seconds);
    }));
  }

  /** @returns {Promise<Manifest | null>} */
  #manifest(/** @type {number} */ id) {
    return this.#once(`manifest ${id}`, () => getOrNull(`/api/runs/${id}/manifest/`), (manifest) => manifest && hasEnded(manifest));
  }

  /** @returns {Promise<ByMetric>} */
  #series(/** @type {Manifest} */ manifest, /** @type {object} */ params) {
    const path = `/api/metrics/${manifest.run_id}/${query({ metric_type: "run", ...params })}`;
    return this.#once(path, async () => byMetric(await get(path)), () => hasEnded(manifest));
  }

  async #once(/** @type {string} */ key, ask, isLasting) {
    if (this.#kept.has(key)) return this.#kept.get(key);
    const answer = await ask();
    if (isLasting(answer)) this.#kept.set(key, answer);
    return answer;
  }
}

/**
 * @param {string[][]} recorded the metrics of each run
 * @returns {string[]} each once: curves that all runs have, other curves, totals; losses first
 */
export function inOrder(recorded) {
  const curves = plottable(recorded.flat());
  const named = [...LOSSES.filter((name) => curves.includes(name)), ...curves];
  const isShared = (name) => recorded.every((metrics) => metrics.includes(name));
  return [...new Set([...named.filter(isShared), ...named, ...recorded.flat()])];
}

/** @returns {string} the API's path of a comparison. */
export function toPath(/** @type {number[]} */ ids, target = "") {
  const end = target ? `&${new URLSearchParams({ target })}` : "";
  return `/api/compare/?runs=${ids.join(",")}${end}`;
}

/** @returns {boolean} whether a run has ended, so that nothing of it can change. */
export function hasEnded(/** @type {Manifest} */ manifest) {
  return manifest.finished_at !== null;
}

/** @returns {Columns} the curve of the target's metric that a result has */
export function ofResult(/** @type {Pick<Result, "curve">} */ { curve }, /** @type {string} */ axis) {
  return finite({ x: axis === "training" ? curve.training_seconds : curve.wall_seconds, y: curve.values });
}

/**
 * @param {ByMetric} recorded
 * @param {string} metric
 * @param {string} axis
 * @param {string | null} startedAt when the run started
 * @param {number | null} [seconds] how long it has run
 * @returns {Columns} the curve that the run's lowest rank recorded
 */
export function ofRecorded(recorded, metric, axis, startedAt, seconds = null) {
  const [[rank, all]] = [...(recorded.get(metric) ?? [[null, null]])].sort(([a], [b]) => (a ?? -1) - (b ?? -1));
  const clock = recorded.get(CLOCKS[axis])?.get(rank);
  if (!all || startedAt === null || (axis !== "wall" && !clock)) return { x: [], y: [] };
  const start = Date.parse(startedAt);
  const { times, values: y, lows, highs } = seconds === null ? all : within(all, start, start + 1000 * seconds).series;
  const x = axis === "wall" ? times.map((time) => (time - start) / 1000) : counterAt(wholeClock(axis, clock), times);
  return finite({ x, y, lows, highs });
}

// Without the points that have no place on the axis.
function finite(/** @type {Columns} */ { x, y, lows, highs }) {
  const isFinite = x.map((value) => value != null && Number.isFinite(value));
  const pick = (column) => column?.filter((_, i) => isFinite[i]);
  return { x: pick(x), y: pick(y), lows: pick(lows), highs: pick(highs) };
}
