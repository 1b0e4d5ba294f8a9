// Fetches what the page shows of runs: their comparison, their manifests, their recorded series.

import { get } from "../api.js";
import { byMetric } from "../series.js";

const MOST_POINTS = 600;
const USUAL = "train_loss";
export const CLOCKS = { training: "train_seconds", step: "step" };

/**
 * What is known of the runs. What can change no more is fetched once.
 * @typedef {{ comparison: object | null, manifests: object[], missing: number[] }} Found
 */
export class Loader {
  #manifests = new Map();
  #recorded = new Map();
  #metrics = new Map();

  /** @returns {Promise<Found>} runs side by side; those that are not there are `missing`. */
  async compare(/** @type {number[]} */ ids, /** @type {string} */ goal) {
    const manifests = await Promise.all(ids.map((id) => this.#manifest(id)));
    const missing = ids.filter((_, i) => !manifests[i]);
    const there = ids.filter((_, i) => manifests[i]);
    const comparison = there.length ? await get(toPath(there, goal)) : null;
    return { comparison, manifests: manifests.filter(Boolean), missing };
  }

  /** @returns {Promise<string[]>} the metrics that any of the runs recorded, the usual one first. */
  async metrics(/** @type {object[]} */ manifests) {
    const found = await Promise.all(manifests.map((manifest) => this.#metricsOf(manifest)));
    const names = new Set(found.flat().sort());
    return names.has(USUAL) ? [USUAL, ...names] : [...names];
  }

  /**
   * @returns {Promise<Map<string, Map<number | null, import("../series.js").Series>>>} a metric of
   * a run, and the clocks that it can be drawn by
   */
  recorded(/** @type {object} */ manifest, /** @type {string} */ metric) {
    const params = {
      metric_type: "run",
      metric_filter: [...new Set([metric, ...Object.values(CLOCKS)])],
      summarize: MOST_POINTS,
    };
    return once(this.#recorded, `${manifest.run_id} ${metric}`, hasEnded(manifest), async () =>
      byMetric(await get(`/api/metrics/${manifest.run_id}/`, params)),
    );
  }

  #manifest(id) {
    const known = this.#manifests.get(id);
    if (known && hasEnded(known)) return known;
    return this.#fetchManifest(id);
  }

  async #fetchManifest(id) {
    try {
      const manifest = await get(`/api/runs/${id}/manifest/`);
      this.#manifests.set(id, manifest);
      return manifest;
    } catch (error) {
      if (error.status === 404) return null;
      throw error;
    }
  }

  #metricsOf(manifest) {
    const id = manifest.run_id;
    return once(this.#metrics, id, hasEnded(manifest), async () => {
      const answer = await get(`/api/metrics/${id}/`, { metric_type: "run", last_n: 1 });
      return [...byMetric(answer).keys()];
    });
  }
}

/** @returns {string} where the API answers with the comparison of runs. */
export function toPath(/** @type {number[]} */ ids, /** @type {string} */ goal) {
  const wish = goal ? `&${new URLSearchParams({ goal })}` : "";
  return `/api/compare/?runs=${ids.join(",")}${wish}`;
}

/** @returns {boolean} whether nothing of a run will change any more. */
export function hasEnded(/** @type {{ finished_at: string | null }} */ manifest) {
  return manifest.finished_at !== null;
}

// What fails is not kept, so that the next one asks again.
async function once(known, key, isLasting, ask) {
  if (known.has(key)) return known.get(key);
  const answer = await ask();
  if (isLasting) known.set(key, answer);
  return answer;
}
