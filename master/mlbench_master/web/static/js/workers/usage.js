// Resource use of the workers in the last minutes, as the exporter has recorded it.

import { get, now } from "../api.js";
import { EMPTY, combine, longest, rate, sum, toSeries } from "../series.js";

/** @import { Series } from "../series.js" */
/** @typedef {keyof FIGURES} Kind cores, bytes, and bytes per second */

const POINTS = 30;
// Maximum age of a current value: three intervals of the exporter, or two points of the longest window.
const CURRENT_MS = 20_000;

/** Measurements of workers: title, the exporter's metric, and the unit in charts. */
export const FIGURES = {
  cpu: { title: "CPU", metric: "container_cpu_usage_seconds_total", unit: "Cores", by: 1 },
  memory: { title: "Memory", metric: "container_memory_working_set_bytes", unit: "MB", by: 1e6 },
  sent: { title: "Network, sent", metric: "container_network_transmit_bytes_total", unit: "MB/s", by: 1e6 },
  received: { title: "Network, received", metric: "container_network_receive_bytes_total", unit: "MB/s", by: 1e6 },
  read: { title: "Disk, read", metric: "container_fs_reads_bytes_total", unit: "MB/s", by: 1e6 },
  written: { title: "Disk, written", metric: "container_fs_writes_bytes_total", unit: "MB/s", by: 1e6 },
};

/** The usage of all pods, in a window that ends with the newest sample. */
export class Usage {
  /** @type {Map<string, Series>} by kind and pod */
  #series = new Map();

  /** @param {Record<string, Record<string, any[]>>} samples of `/api/metrics/`, by pod and name of the series */
  constructor(samples = {}) {
    for (const [kind, { metric }] of Object.entries(FIGURES)) {
      for (const [pod, byName] of Object.entries(samples)) {
        const series = seriesOf(byName, metric);
        if (series.times.length) this.#series.set(`${kind} ${pod}`, series);
      }
    }
    this.newest = Math.max(0, ...[...this.#series.values()].map(({ times }) => times.at(-1)));
  }

  of(/** @type {string} */ pod, /** @type {Kind} */ kind) {
    return this.#series.get(`${kind} ${pod}`);
  }

  /** @returns {number} the highest value of a kind; 0 if none is known. */
  highest(/** @type {Kind} */ kind) {
    const all = [...this.#series].filter(([key]) => key.startsWith(`${kind} `));
    return Math.max(0, ...all.flatMap(([, { values }]) => values));
  }

  /** @returns {number | null} the sum of the current values of these pods; null if none is known. */
  current(/** @type {{ name: string }[]} */ pods, /** @type {Kind} */ kind) {
    const all = pods.map(({ name }) => this.of(name, kind)).filter((series) => series && this.newest - series.times.at(-1) <= CURRENT_MS);
    return all.length ? sum(all.map(({ values }) => values.at(-1))) : null;
  }
}

/** Fetch the usage of all pods in the last milliseconds. */
export async function fetchUsage(/** @type {number} */ milliseconds, /** @type {Kind[]} */ kinds) {
  const since = new Date(now() - milliseconds).toISOString();
  const filter = kinds.map((kind) => FIGURES[kind].metric);
  return new Usage(await get("/api/metrics/", { since, metric_filter: filter, summarize: POINTS }));
}

/** @returns {Series} a metric of a pod, per second if it counts: the sum over its containers, `name{container="a"}`. */
export function seriesOf(/** @type {Record<string, any[]>} */ byName, /** @type {string} */ metric) {
  const names = Object.keys(byName).filter((name) => name === metric || name.startsWith(`${metric}{`));
  const isCounter = metric.endsWith("_total");
  // An averaged point has the time of its first sample, whose value is the lowest in a counter.
  const all = names.map((name) => toSeries(byName[name])).map((series) => (isCounter ? { ...series, values: series.lows } : series));
  const joined = all.length > 1 ? combine(longest(all), all, sum) : (all[0] ?? EMPTY);
  return isCounter ? rate(joined) : joined;
}
