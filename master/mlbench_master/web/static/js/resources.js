// The section "Resources": resource use of the chosen workers over time.

import { get, getOrNull } from "./api.js";
import { Chart } from "./chart.js";
import { byId, setNotice, setOptions } from "./dom.js";
import { styleOf } from "./plot.js";
import { combine, longest, mapColumns, mean, rate, since, sum, toSeries } from "./series.js";

/**
 * Which pods, from when until when in Unix milliseconds, and the axis to draw that on; with no
 * pods, `none` says why.
 * @typedef {{ pods: string[], from: number, until: number, none?: string,
 *   axis: { title: string, shared?: import("./zoom.js").Shared, place: (times: number[]) => number[] } }} Usage
 */

const POINTS = 300;
const POINTS_OF_ALL = 20_000;
const MAX_LINES = 8;
const MAX_REQUESTS = 16;
// A counter's first rate needs the value before.
const BEFORE_MS = 10_000;

const CORES = { unit: "Cores", by: 1, isCounter: true };
const SIZE = { unit: "MB", by: 1e6, isCounter: false };
const SPEED = { unit: "MB/s", by: 1e6, isCounter: true };
const FIGURES = {
  cpu: { text: "CPU", metric: "cpu_usage_seconds_total", ...CORES },
  memory: { text: "Memory", metric: "memory_working_set_bytes", ...SIZE },
  sent: { text: "Network, sent", metric: "network_transmit_bytes_total", ...SPEED },
  received: { text: "Network, received", metric: "network_receive_bytes_total", ...SPEED },
  read: { text: "Disk, read", metric: "fs_reads_bytes_total", ...SPEED },
  written: { text: "Disk, written", metric: "fs_writes_bytes_total", ...SPEED },
};
const SHOWN = { each: "Each", mean: "Mean and range", sum: "Sum" };

export class Resources {
  #place = byId("resources-chart");
  #figure = byId("figure");
  #shown = byId("pods-shown");
  /** @type {Map<string, import("./series.js").Series>} */
  #byPod = new Map();
  /** @type {Usage | null} */
  #usage = null;

  /** @param {() => void} onChange called when another figure was chosen, and must be fetched */
  constructor(onChange) {
    this.chart = new Chart(this.#place, "Resource use");
    setOptions(this.#figure, Object.keys(FIGURES), (figure) => FIGURES[figure].text);
    this.#figure.addEventListener("change", onChange);
    this.#shown.addEventListener("change", () => this.#draw());
  }

  /** Fetch the chosen figure of the pods, and draw it. */
  async refresh(/** @type {Usage} */ usage) {
    if (usage.pods.length !== this.#usage?.pods.length) this.#offerShown(usage.pods.length);
    this.#usage = usage;
    this.#byPod = await this.#fetch(FIGURES[this.#figure.value]);
    this.#draw();
  }

  #draw() {
    const { none, axis } = this.#usage;
    const figure = FIGURES[this.#figure.value];
    const hasAny = this.#byPod.size > 0;
    const empty = none || `${figure.text}: no measurements in this period.`;
    this.#place.hidden = !hasAny;
    setNotice(byId("no-resources"), hasAny ? "" : empty);
    if (!hasAny) return;
    const lines = this.#lines().map(({ name, series: { times, values: y, lows, highs } }, i) => {
      return { name, x: axis.place(times), y, lows, highs, colour: styleOf(i).colour };
    });
    this.chart.draw(lines, { x: axis.title, shared: axis.shared, y: figure.unit, fromZero: true });
  }

  #lines() {
    const all = [...this.#byPod.values()];
    const shown = this.#shown.value;
    if (shown === "mean") return [{ name: "mean", series: combine(longest(all), all, mean) }];
    if (shown === "sum") {
      const joined = combine(longest(all), all, sum);
      return [{ name: "sum", series: { ...joined, lows: joined.values, highs: joined.values } }];
    }
    return [...this.#byPod].map(([name, series]) => ({ name, series }));
  }

  async #fetch(figure) {
    const { pods, from, until } = this.#usage;
    const metric = `container_${figure.metric}`;
    const params = {
      metric_filter: metric,
      since: new Date(from - BEFORE_MS).toISOString(),
      until: new Date(until).toISOString(),
      summarize: Math.min(POINTS, Math.floor(POINTS_OF_ALL / Math.max(1, pods.length))),
    };
    const whole = pods.length > MAX_REQUESTS ? await get("/api/metrics/", params) : null;
    // A pod that is gone may have no samples left.
    const fetchPod = (pod) => getOrNull(`/api/metrics/${encodeURIComponent(pod)}/`, params);
    const answers = await Promise.all(pods.map((pod) => (whole ? whole[pod] : fetchPod(pod))));
    const byPod = new Map();
    pods.forEach((pod, i) => {
      const series = usedSince(from, figure, answers[i]?.[metric] ?? []);
      if (series.times.length) byPod.set(pod, series);
    });
    return byPod;
  }

  #offerShown(pods) {
    const values = pods > MAX_LINES ? ["mean", "sum"] : ["each", "mean", "sum"];
    setOptions(this.#shown, values, (value) => SHOWN[value]);
    byId("pods-choice").hidden = pods < 2;
  }
}

function usedSince(start, figure, points) {
  const series = toSeries(points);
  const used = since(figure.isCounter ? rate(series) : series, start);
  return mapColumns(used, (column, name) =>
    name === "times" ? column : column.map((value) => value / figure.by),
  );
}
