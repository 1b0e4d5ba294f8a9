// Fetches recorded series: first all of them, then new points; the API downsamples long series.

import { get } from "../api.js";
import { append, byMetric } from "../series.js";

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

/** Some series of a run, kept up to date. */
export class SeriesStore {
  #filters = [];
  #reloadedAt = 0;

  /**
   * @param {number} runId
   * @param {number} points of each curve, about
   * @param {"final" | "discarded"} lineage of a run that was restarted
   */
  constructor(runId, points, lineage = "final") {
    this.path = `/api/metrics/${runId}/`;
    this.lineage = lineage;
    this.points = points;
    /** @type {ByMetric} */
    this.series = new Map();
  }

  /**
   * Bring the series up to date.
   * @param {string[]} filters names of metrics or of single series
   * @param {boolean} isReload whether to fetch all of them again
   */
  async refresh(filters, isReload) {
    const isOther = filters.some((filter) => !this.#filters.includes(filter));
    const { newest, most } = this.#extent();
    // New points of an active run are not downsampled, so that a curve grows.
    const askedAt = performance.now();
    const isOld = askedAt - this.#reloadedAt > RELOAD_MS || this.#reloadedAt < expiredAt;
    const isWhole = isReload || isOther || isOld || !newest || most > 2 * this.points;
    const answer = await get(this.path, {
      metric_type: "run",
      metric_filter: filters,
      added: false,
      lineage: this.lineage,
      summarize: this.points,
      since: isWhole ? null : new Date(newest - OVERLAP_MS).toISOString(),
    });
    this.#filters = filters;
    const series = byMetric(answer);
    if (!isWhole) {
      this.#append(series);
      return;
    }
    this.series = series;
    this.#reloadedAt = askedAt;
  }

  #append(/** @type {ByMetric} */ metrics) {
    for (const [metric, ranks] of metrics) {
      const byRank = this.series.get(metric) ?? new Map();
      this.series.set(metric, byRank);
      for (const [rank, series] of ranks) {
        byRank.set(rank, byRank.has(rank) ? append(byRank.get(rank), series) : series);
      }
    }
  }

  #extent() {
    const all = [...this.series.values()].flatMap((ranks) => [...ranks.values()]);
    return {
      newest: Math.max(0, ...all.map((series) => series.times.at(-1) ?? 0)),
      most: Math.max(0, ...all.map((series) => series.times.length)),
    };
  }
}
