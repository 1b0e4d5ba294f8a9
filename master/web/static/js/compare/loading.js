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
    const asked = orNone(get(toPath(ids, goal)));
    const manifests = await Promise.all(ids.map((id) => this.#manifest(id)));
    const there = ids.filter((_, i) => manifests[i]);
    const missing = ids.filter((_, i) => !manifests[i]);
    const comparison = await asked;
    if (comparison && !missing.length) return { comparison, manifests, missing };
    // A run was deleted after its manifest was fetched: which one, the manifests tell.
    if (!missing.length) this.#manifests.clear();
    if (!there.length) return { comparison: null, manifests: [], missing };
    const found = await this.compare(there, goal);
    return { ...found, missing: [...missing, ...found.missing] };
  }

  /** @returns {Promise<string[]>} the metrics that any of the runs recorded, the usual one first. */
  async metrics(/** @type {object[]} */ manifests) {
    const found = await Promise.all(manifests.map((manifest) => this.#metricsOf(manifest)));
    const names = new Set(found.flat().sort());
    return names.has(USUAL) ? [USUAL, ...names] : [...names];
  }

  /**
   * @param {{ run_id: number, finished_at: string | null }} manifest
   * @param {string} metric
   * @param {string} axis
   * @returns {Promise<Map<string, Map<number | null, import("../series.js").Series>>>} the metric
   * as the run recorded it, and the clock of the axis
   */
  recorded(manifest, metric, axis) {
    const metrics = [...new Set([metric, CLOCKS[axis] ?? metric])];
    const params = { metric_type: "run", metric_filter: metrics, summarize: MOST_POINTS };
    const key = [manifest.run_id, ...metrics].join(" ");
    return once(this.#recorded, key, hasEnded(manifest), async () =>
      byMetric(await get(`/api/metrics/${manifest.run_id}/`, params)),
    );
  }

  #manifest(id) {
    const known = this.#manifests.get(id);
    if (known && hasEnded(known)) return known;
    return this.#fetchManifest(id);
  }

  async #fetchManifest(id) {
    const manifest = await orNone(get(`/api/runs/${id}/manifest/`));
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

/** @returns {string} where the API answers with the comparison of runs. */
export function toPath(/** @type {number[]} */ ids, /** @type {string} */ goal) {
  const wish = goal ? `&${new URLSearchParams({ goal })}` : "";
  return `/api/compare/?runs=${ids.join(",")}${wish}`;
}

/** @returns {boolean} whether nothing of a run will change any more. */
export function hasEnded(/** @type {{ finished_at: string | null }} */ manifest) {
  return manifest.finished_at !== null;
}

/** @returns {Promise<any>} what is asked for; null where there is no such thing. */
async function orNone(/** @type {Promise<object>} */ asked) {
  try {
    return await asked;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

// What fails is not kept, so that the next one asks again.
async function once(known, key, isLasting, ask) {
  if (known.has(key)) return known.get(key);
  const answer = await ask();
  if (isLasting) known.set(key, answer);
  return answer;
}
