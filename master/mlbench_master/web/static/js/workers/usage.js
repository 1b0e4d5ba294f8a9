// Resource use of each worker in the last minutes: a sliding window over the exporter's series.

import { EMPTY, append, rate, since, toSeries } from "../series.js";

/** The length of the window. */
export const WINDOW_MS = 5 * 60_000;
// An exporter that is later than this is not waited for.
const LATE_MS = 30_000;
// Maximum age of a current value.
const CURRENT_MS = 15_000;

const METRICS = {
  cpu: "container_cpu_usage_seconds_total",
  memory: "container_memory_working_set_bytes",
  received: "container_network_receive_bytes_total",
  sent: "container_network_transmit_bytes_total",
};

/** The counter of CPU time. */
export const CPU = METRICS.cpu;
/** The metrics to ask the API for. */
export const FILTER = Object.values(METRICS);

/**
 * @import { Series } from "../series.js"
 *
 * Cores; bytes of the working set; bytes received and sent per second.
 * @typedef {{ cpu: Series, memory: Series, received: Series, sent: Series }} Curves
 */

/** The usage of all pods. */
export class Usage {
  /** @type {Map<string, Map<string, Series>>} by pod and metric, as the API has them */
  #series = new Map();
  /** @type {Map<string, Curves>} by pod */
  #curves = new Map();

  /** Add an answer of `/api/metrics/`, by pod and name of the series. */
  add(/** @type {Record<string, Record<string, object[]>>} */ answer) {
    for (const [pod, byName] of Object.entries(answer)) {
      const byMetric = this.#series.get(pod) ?? new Map();
      this.#series.set(pod, byMetric);
      for (const metric of FILTER) {
        byMetric.set(metric, append(byMetric.get(metric) ?? EMPTY, sumOf(byName, metric)));
      }
    }
    const start = this.newest() - WINDOW_MS;
    for (const [pod, byMetric] of this.#series) {
      for (const [metric, series] of byMetric) byMetric.set(metric, since(series, start));
      this.#curves.set(pod, toCurves(byMetric));
      if ([...byMetric.values()].some((series) => series.times.length)) continue;
      this.#series.delete(pod);
      this.#curves.delete(pod);
    }
  }

  /** @returns {Curves} the curves of a pod, which may be empty. */
  of(/** @type {string} */ pod) {
    return this.#curves.get(pod) ?? toCurves(new Map());
  }

  /** @returns {number} the time of the newest sample in Unix milliseconds; 0 without samples. */
  newest() {
    return Math.max(0, ...this.#ends());
  }

  /** @returns {number} the time from which some pod may have newer samples. */
  askFrom() {
    const newest = this.newest();
    return Math.min(...this.#ends().filter((end) => end >= newest - LATE_MS));
  }

  /** @returns {Record<keyof Curves, number>} the highest value of each curve among these pods. */
  highest(/** @type {string[]} */ pods) {
    const tops = { cpu: 0, memory: 0, received: 0, sent: 0 };
    for (const pod of pods) {
      for (const [kind, { values }] of Object.entries(this.of(pod))) {
        for (const value of values) if (value > tops[kind]) tops[kind] = value;
      }
    }
    return tops;
  }

  #ends() {
    return [...this.#series.values()].flatMap((byMetric) =>
      [...byMetric.values()].map((series) => series.times.at(-1) ?? 0),
    );
  }
}

/** @returns {number | null} the last value of a series, if it is a current one. */
export function current(/** @type {Series} */ series, /** @type {number} */ newest) {
  const last = series.times.at(-1);
  return last === undefined || newest - last > CURRENT_MS ? null : series.values.at(-1);
}

function toCurves(byMetric) {
  const of = (kind) => byMetric.get(METRICS[kind]) ?? EMPTY;
  return {
    cpu: rate(of("cpu")),
    memory: of("memory"),
    received: rate(of("received")),
    sent: rate(of("sent")),
  };
}

// A pod with several containers has several series, `name{container="a"}`; the exporter writes them
// at the same moment, and they are summed up. A point that stands for several samples has the time
// of the first one, which of a counter is the smallest.
function sumOf(byName, metric) {
  const isCounter = metric.endsWith("_total");
  const sums = new Map();
  for (const [name, points] of Object.entries(byName)) {
    if (name !== metric && !name.startsWith(`${metric}{`)) continue;
    const { times, values, lows } = toSeries(points);
    const first = isCounter ? lows : values;
    times.forEach((time, i) => sums.set(time, (sums.get(time) ?? 0) + first[i]));
  }
  const times = [...sums.keys()].sort((a, b) => a - b);
  const values = times.map((time) => sums.get(time));
  return { times, values, lows: values, highs: values };
}
