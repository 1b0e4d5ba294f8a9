// Fetches what a run records: whole at first, then what is new; long series summarised.

import { get } from "../api.js";
import { append, byMetric } from "../series.js";

// The master has the samples of different ranks in no common order.
const OVERLAP_MS = 10_000;
// What comes later than that, as from a worker that was cut off, is there after so long.
const WHOLE_MS = 60_000;

/** @typedef {import("../series.js").Series} Series */

/** Some series of a run, kept up to date. */
export class Recorded {
  /**
   * @param {number} runId
   * @param {number} points of each curve, about
   */
  constructor(runId, points) {
    this.path = `/api/metrics/${runId}/`;
    this.points = points;
    this.filters = [];
    this.wholeAt = 0;
    /** @type {Map<string, Map<number | null, Series>>} */
    this.series = new Map();
  }

  /**
   * Bring the series up to date.
   * @param {string[]} filters names of metrics, or of single series
   * @param {boolean} isWhole whether to fetch all of them anew
   * @returns {Promise<void>}
   */
  async refresh(filters, isWhole) {
    const isOther = filters.some((filter) => !this.filters.includes(filter));
    const { newest, longest } = this.#extent();
    // Points of a growing run are kept one by one, up to a bound.
    const askedAt = performance.now();
    const isOld = askedAt - this.wholeAt > WHOLE_MS;
    const isAnew = isWhole || isOther || isOld || !newest || longest > 2 * this.points;
    const answer = await get(this.path, {
      metric_type: "run",
      metric_filter: filters,
      summarize: this.points,
      since: isAnew ? null : new Date(newest - OVERLAP_MS).toISOString(),
    });
    this.filters = filters;
    const found = byMetric(answer);
    if (!isAnew) {
      this.#append(found);
      return;
    }
    this.series = found;
    this.wholeAt = askedAt;
  }

  #append(found) {
    for (const [metric, ranks] of found) {
      const known = this.series.get(metric) ?? new Map();
      this.series.set(metric, known);
      for (const [rank, series] of ranks) {
        known.set(rank, known.has(rank) ? append(known.get(rank), series) : series);
      }
    }
  }

  #extent() {
    const all = [...this.series.values()].flatMap((ranks) => [...ranks.values()]);
    return {
      newest: Math.max(0, ...all.map((one) => one.times.at(-1) ?? 0)),
      longest: Math.max(0, ...all.map((one) => one.times.length)),
    };
  }
}

/**
 * Fetch the newest value of everything that a run records.
 * @param {number} runId
 * @returns {Promise<Map<string, Map<number | null, number>>>} by metric and rank
 */
export async function lastValues(runId) {
  const answer = await get(`/api/metrics/${runId}/`, { metric_type: "run", last_n: 1 });
  return new Map(
    [...byMetric(answer)].map(([metric, ranks]) => [
      metric,
      new Map([...ranks].map(([rank, series]) => [rank, series.values.at(-1)])),
    ]),
  );
}
