// What each worker has used in the last minutes: appended to, and cut at the old end. Pure.

import { append, rate, toSeries } from "../series.js";

/** How far back the curves go. */
export const WINDOW_MS = 5 * 60_000;
// An exporter that is late by less than this is waited for.
const LATE_MS = 30_000;
// A figure that is older than this is no current one.
const CURRENT_MS = 15_000;

const METRICS = {
  cpu: "container_cpu_usage_seconds_total",
  memory: "container_memory_working_set_bytes",
  received: "container_network_receive_bytes_total",
  sent: "container_network_transmit_bytes_total",
};
const EMPTY = toSeries([]);

/** What to ask the API for. */
export const FILTER = Object.values(METRICS);

/** @typedef {import("../series.js").Series} Series */

/**
 * Cores; bytes of memory, without what could be given back; bytes per second received and sent.
 * @typedef {{ cpu: Series, memory: Series, received: Series, sent: Series }} Curves
 */

/** What is known of all pods. */
export class Usage {
  /** @type {Map<string, Map<string, Series>>} by pod and metric, as the API tells them */
  #told = new Map();
  /** @type {Map<string, Curves>} */
  #curves = new Map();

  /** Take an answer of `/api/metrics/`: by pod and name of the series. */
  add(/** @type {Record<string, Record<string, object[]>>} */ answer) {
    for (const [pod, byName] of Object.entries(answer)) {
      const told = this.#told.get(pod) ?? new Map();
      this.#told.set(pod, told);
      for (const metric of FILTER) {
        told.set(metric, append(told.get(metric) ?? EMPTY, read(byName, metric)));
      }
    }
    const start = this.newest() - WINDOW_MS;
    for (const [pod, told] of this.#told) {
      for (const [metric, series] of told) told.set(metric, cut(series, start));
      this.#curves.set(pod, toCurves(told));
      // Of a pod that is gone for long, nothing is left.
      if ([...told.values()].every((series) => !series.times.length)) this.#forget(pod);
    }
  }

  /** @returns {Curves} of a pod; empty ones where nothing is known. */
  of(/** @type {string} */ pod) {
    return this.#curves.get(pod) ?? toCurves(new Map());
  }

  /** @returns {number} when the newest sample is of, in Unix milliseconds; 0 without one. */
  newest() {
    return Math.max(0, ...this.#ends());
  }

  /** @returns {number} from when on to ask: what every pod, but for those long gone, has told. */
  askFrom() {
    const newest = this.newest();
    return Math.min(...this.#ends().filter((end) => end >= newest - LATE_MS));
  }

  /** @returns {Record<keyof Curves, number>} the highest of each curve among so many pods. */
  highest(/** @type {string[]} */ pods) {
    const tops = { cpu: 0, memory: 0, received: 0, sent: 0 };
    for (const pod of pods) {
      for (const [kind, { values }] of Object.entries(this.of(pod))) {
        for (const value of values) if (value > tops[kind]) tops[kind] = value;
      }
    }
    return tops;
  }

  #forget(pod) {
    this.#told.delete(pod);
    this.#curves.delete(pod);
  }

  #ends() {
    return [...this.#told.values()].flatMap((told) =>
      [...told.values()].map((series) => series.times.at(-1) ?? 0),
    );
  }
}

/** @returns {number | null} the last value, unless it is an old one, or there is none. */
export function current(/** @type {Series} */ series, /** @type {number} */ newest) {
  const last = series.times.at(-1);
  return last === undefined || newest - last > CURRENT_MS ? null : series.values.at(-1);
}

function toCurves(told) {
  const of = (kind) => told.get(METRICS[kind]) ?? EMPTY;
  return {
    cpu: rate(of("cpu")),
    memory: of("memory"),
    received: rate(of("received")),
    sent: rate(of("sent")),
  };
}

// A pod has several series of a metric where it has several containers, `name{container="a"}`, and
// one exporter tells of all of them at the same moment: they are summed up. A point that stands for
// several has the time of the first of them; of a counter, so has their smallest value.
function read(byName, metric) {
  const isCounter = metric.endsWith("_total");
  const sums = new Map();
  for (const [name, points] of Object.entries(byName)) {
    if (name !== metric && !name.startsWith(`${metric}{`)) continue;
    const { times, values, lows } = toSeries(points);
    const told = isCounter ? lows : values;
    times.forEach((time, i) => sums.set(time, (sums.get(time) ?? 0) + told[i]));
  }
  const times = [...sums.keys()].sort((a, b) => a - b);
  const values = times.map((time) => sums.get(time));
  return { times, values, lows: values, highs: values };
}

function cut(series, start) {
  const first = series.times.findIndex((time) => time >= start);
  if (first < 0) return EMPTY;
  const rest = (name) => series[name].slice(first);
  return { times: rest("times"), values: rest("values"), lows: rest("lows"), highs: rest("highs") };
}
