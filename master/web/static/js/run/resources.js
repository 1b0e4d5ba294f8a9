// The section "Resources": what the run's workers used, over the run's own time.

import { get, getOrNull, now } from "../api.js";
import { Chart } from "../chart.js";
import { byId, setOptions, setText } from "../dom.js";
import { styleOf } from "../plot.js";
import { combine, longest, mapColumns, mean, rate, since, sum, toSeries } from "../series.js";
import { timeAxis } from "./curves.js";

/** @typedef {import("../records.js").Run} Run */

const POINTS = 300;
const POINTS_OF_ALL = 20_000;
const MAX_LINES = 8;
const MAX_REQUESTS = 16;
// A counter's first rate needs the value before.
const BEFORE_MS = 10_000;
// The last scrape comes after the end.
const AFTER_MS = 5_000;

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

/** The section "Resources". */
export class Resources {
  #place = byId("resources-chart");
  #figure = byId("figure");
  #shown = byId("pods-shown");
  /** @type {Map<string, import("../series.js").Series>} */
  #byPod = new Map();
  /** @type {Run | null} */
  #run = null;

  /** @param {() => void} onChange called when another figure was chosen, and must be fetched */
  constructor(onChange) {
    this.chart = new Chart(this.#place, "Use of resources over the run");
    setOptions(this.#figure, Object.keys(FIGURES), (figure) => FIGURES[figure].text);
    this.#figure.addEventListener("change", onChange);
    this.#shown.addEventListener("change", () => this.#draw().catch(() => {}));
  }

  /** Fetch the chosen figure of the run's pods, and draw it. */
  async refresh(/** @type {Run} */ run) {
    if (!this.#run) this.#offerShown(run.ranks.length);
    this.#run = run;
    this.#byPod = run.started_at ? await this.#fetch(FIGURES[this.#figure.value]) : new Map();
    await this.#draw();
  }

  async #draw() {
    const run = this.#run;
    const figure = FIGURES[this.#figure.value];
    const hasAny = this.#byPod.size > 0;
    const empty = byId("no-resources");
    this.#place.hidden = !hasAny;
    empty.hidden = hasAny;
    setText(empty, run.started_at ? notMeasured(figure) : "Measured once the run has started.");
    if (!hasAny) return;
    const axis = timeAxis(run.started_at, endOf(run));
    const lines = this.#lines().map(({ name, series }, i) => ({
      name,
      x: axis.place(series.times),
      y: series.values,
      lows: series.lows,
      highs: series.highs,
      colour: styleOf(i).colour,
    }));
    await this.chart.draw(lines, { x: axis.title, y: figure.unit, fromZero: true });
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
    const run = this.#run;
    const pods = [...new Set(run.ranks.map((rank) => rank.pod))];
    const from = Date.parse(run.started_at);
    const metric = `container_${figure.metric}`;
    const params = {
      metric_filter: metric,
      since: new Date(from - BEFORE_MS).toISOString(),
      until: new Date(endOf(run)).toISOString(),
      summarize: Math.min(POINTS, Math.floor(POINTS_OF_ALL / Math.max(1, pods.length))),
    };
    const whole = pods.length > MAX_REQUESTS ? await get("/api/metrics/", params) : null;
    // A pod that is gone may have no samples left.
    const fetchPod = (pod) => getOrNull(`/api/metrics/${encodeURIComponent(pod)}/`, params);
    const answers = await Promise.all(pods.map((pod) => (whole ? whole[pod] : fetchPod(pod))));
    const found = new Map();
    pods.forEach((pod, i) => {
      const series = usedSince(from, figure, answers[i]?.[metric] ?? []);
      if (series.times.length) found.set(pod, series);
    });
    return found;
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

function endOf(run) {
  return run.finished_at ? Date.parse(run.finished_at) + AFTER_MS : now();
}

function notMeasured(figure) {
  return (
    `${figure.text} was not measured while the run went on: ` +
    "it was too short, or nothing here measures it."
  );
}
