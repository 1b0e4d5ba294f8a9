// Fetches the data of the page: a comparison, and the manifests and recorded series of its runs.

import { get, getOrNull } from "../api.js";
import { LOSSES } from "../records.js";
import { CLOCKS, plottable } from "../run/curves.js";
import { byMetric } from "../series.js";

const MAX_POINTS = 600;
// Of all runs together.
const POINTS_OF_ALL = 40_000;

/**
 * @import { Manifest } from "../records.js"
 *
 * A comparison, the manifests of its runs, and the ids of runs that do not exist.
 * @typedef {{ comparison: import("../records.js").Comparison | null, manifests: Manifest[],
 *   missing: number[] }} Found
 */

/** Fetches data that no longer changes only once. */
export class Loader {
  #manifests = new Map();
  #recorded = new Map();
  #metrics = new Map();

  /**
   * @param {number[]} ids
   * @param {string} target
   * @param {Map<number, string>} titles of the runs
   * @returns {Promise<Found>} the comparison of those runs that exist
   */
  async compare(ids, target, titles) {
    const [comparison, ...manifests] = await Promise.all([getOrNull(toPath(ids, target)), ...ids.map((id) => this.#manifest(id))]);
    const there = ids.filter((_, i) => manifests[i]);
    const missing = ids.filter((_, i) => !manifests[i]);
    if (comparison && !missing.length) return { comparison: withTitles(comparison, titles), manifests, missing };
    // A run was deleted after its manifest was fetched: fetch them again to find which.
    if (!missing.length) this.#manifests.clear();
    if (!there.length) return { comparison: null, manifests: [], missing };
    const answer = await this.compare(there, target, titles);
    return { ...answer, missing: [...missing, ...answer.missing] };
  }

  /** @returns {Promise<string[]>} the metrics that the runs recorded, as `inOrder` has them. */
  async metrics(/** @type {Manifest[]} */ manifests) {
    return inOrder(await Promise.all(manifests.map((manifest) => this.#metricsOf(manifest))));
  }

  /**
   * @param {Manifest} manifest
   * @param {string} metric
   * @param {string} axis
   * @returns {Promise<import("../series.js").ByMetric>} the metric, and the clock of the axis
   */
  recorded(manifest, metric, axis) {
    const metrics = [...new Set([metric, CLOCKS[axis] ?? metric])];
    const params = { metric_type: "run", metric_filter: metrics, summarize: Math.min(MAX_POINTS, Math.floor(POINTS_OF_ALL / this.#manifests.size)) };
    const key = [manifest.run_id, ...metrics].join(" ");
    return once(this.#recorded, key, hasEnded(manifest), async () =>
      byMetric(await get(`/api/metrics/${manifest.run_id}/`, params)),
    );
  }

  async #manifest(id) {
    const last = this.#manifests.get(id);
    if (last && hasEnded(last)) return last;
    const manifest = await getOrNull(`/api/runs/${id}/manifest/`);
    this.#manifests.set(id, manifest);
    return manifest;
  }

  #metricsOf(manifest) {
    const id = manifest.run_id;
    return once(this.#metrics, id, hasEnded(manifest), async () => {
      const answer = await get(`/api/metrics/${id}/`, { metric_type: "run", last_n: 1 });
      return [...byMetric(answer).keys()];
    });
  }
}

// A comparison has the names that runs were submitted with.
function withTitles(/** @type {import("../records.js").Comparison} */ comparison, /** @type {Map<number, string>} */ titles) {
  const results = comparison.results.map((result) => ({ ...result, display_name: titles.get(result.run_id) ?? result.display_name }));
  return { ...comparison, results };
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
export function toPath(/** @type {number[]} */ ids, /** @type {string} */ target) {
  const end = target ? `&${new URLSearchParams({ target })}` : "";
  return `/api/compare/?runs=${ids.join(",")}${end}`;
}

/** @returns {boolean} whether a run has ended, so that nothing of it can change. */
export function hasEnded(/** @type {Manifest} */ manifest) {
  return manifest.finished_at !== null;
}

// A failure is not kept, so that the next call asks again.
async function once(answers, key, isLasting, ask) {
  if (answers.has(key)) return answers.get(key);
  const answer = await ask();
  if (isLasting) answers.set(key, answer);
  return answer;
}
