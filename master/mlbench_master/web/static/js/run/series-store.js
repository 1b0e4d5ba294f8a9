// Fetches recorded series: first all of them, then new points; the API downsamples long series.

import { get } from "../api.js";
import { EMPTY, append, byMetric } from "../series.js";

/** @import { ByMetric } from "../series.js" */

// The master receives the samples of different ranks in any order.
const OVERLAP_MS = 10_000;
// Samples that come even later, as from a worker that was cut off, are found by a full reload.
const RELOAD_MS = 60_000;
let expiredAt = 0;

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
