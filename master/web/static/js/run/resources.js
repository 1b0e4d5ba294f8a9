// The chart of what the run's workers used: CPU, memory, network, disk, over the run's own time.

import { get, now } from "../api.js";
import { Chart } from "../chart.js";
import { h, setText } from "../dom.js";
import { lineColour } from "../plot.js";
import { rate, toSeries } from "../series.js";
import { combine, mean, sum, timeAxis } from "./curves.js";

/** @typedef {import("../records.js").Run} Run */

const POINTS = 300;
const POINTS_OF_ALL = 20_000;
const MOST_LINES = 8;
const MOST_REQUESTS = 16;
// A counter's first rate needs the value before.
const BEFORE_MS = 10_000;
// The last scrape comes after the end.
const AFTER_MS = 5_000;

const FIGURES = {
  cpu: { text: "CPU", metric: "container_cpu_usage_seconds_total", unit: "Cores", isCounter: true },
  memory: { text: "Memory", metric: "container_memory_working_set_bytes", unit: "MB", by: 1e6 },
  sent: {
    text: "Network, sent",
    metric: "container_network_transmit_bytes_total",
    unit: "MB/s",
    by: 1e6,
    isCounter: true,
  },
  received: {
    text: "Network, received",
    metric: "container_network_receive_bytes_total",
    unit: "MB/s",
    by: 1e6,
    isCounter: true,
  },
  read: {
    text: "Disk, read",
    metric: "container_fs_reads_bytes_total",
    unit: "MB/s",
    by: 1e6,
    isCounter: true,
  },
  written: {
    text: "Disk, written",
    metric: "container_fs_writes_bytes_total",
    unit: "MB/s",
    by: 1e6,
    isCounter: true,
  },
};
const SHOWN = { each: "Each", mean: "Mean and range", sum: "Sum" };

/** The section "Resources". */
export class Resources {
  /**
   * @param {Record<string, any>} parts chart, empty, figure, shown, shownChoice
   * @param {() => void} onChange that another figure was chosen, and must be fetched
   */
  constructor(parts, onChange) {
    this.parts = parts;
    this.chart = new Chart(parts.chart, "Use of resources over the run");
    this.byPod = new Map();
    const options = Object.entries(FIGURES).map(([value, { text }]) =>
      h("option", { value }, text),
    );
    parts.figure.append(...options);
    parts.figure.addEventListener("change", onChange);
    parts.shown.addEventListener("change", () => this.draw().catch(() => {}));
  }

  /** Fetch the chosen figure of all pods of the run, and draw it. */
  async refresh(/** @type {Run} */ run) {
    if (!this.run) this.#offerShown(run.ranks.length);
    this.run = run;
    this.byPod = run.started_at ? await this.#fetch(FIGURES[this.parts.figure.value]) : new Map();
    await this.draw();
  }

  /** Draw what was fetched. */
  async draw() {
    const { parts, run } = this;
    const figure = FIGURES[parts.figure.value];
    const hasAny = this.byPod.size > 0;
    parts.chart.hidden = !hasAny;
    parts.empty.hidden = hasAny;
    setText(parts.empty, run.started_at ? nothing(figure) : "Measured once the run has started.");
    if (!hasAny) return;
    const axis = timeAxis(run.started_at, endOf(run));
    const lines = this.#lines().map(({ name, series }, i) => ({
      name,
      x: axis.place(series.times),
      y: series.values,
      lows: series.lows,
      highs: series.highs,
      colour: lineColour(i),
    }));
    await this.chart.draw(lines, { x: axis.title, y: figure.unit, fromZero: true });
  }

  #lines() {
    const pods = [...this.byPod];
    const all = pods.map(([, series]) => series);
    const longest = all.reduce((found, one) =>
      one.times.length > found.times.length ? one : found,
    );
    switch (this.parts.shown.value) {
      case "sum": {
        const joined = combine(longest, all, sum);
        return [{ name: "sum", series: { ...joined, lows: joined.values, highs: joined.values } }];
      }
      case "mean":
        return [{ name: "mean", series: combine(longest, all, mean) }];
      default:
        return pods.map(([name, series]) => ({ name, series }));
    }
  }

  async #fetch(figure) {
    const { run } = this;
    const pods = [...new Set(run.ranks.map((rank) => rank.pod))];
    const from = Date.parse(run.started_at);
    const params = {
      metric_filter: figure.metric,
      since: new Date(from - BEFORE_MS).toISOString(),
      until: new Date(endOf(run)).toISOString(),
      summarize: Math.min(POINTS, Math.floor(POINTS_OF_ALL / Math.max(1, pods.length))),
    };
    // One answer for all pods where there are many, else one of each that ran this.
    const answers =
      pods.length > MOST_REQUESTS
        ? await get("/api/metrics/", params)
        : Object.fromEntries(
            await Promise.all(pods.map(async (pod) => [pod, await ofPod(pod, params)])),
          );
    const found = new Map();
    for (const pod of pods) {
      const series = toRate(figure, answers[pod]?.[figure.metric] ?? [], from);
      if (series.times.length) found.set(pod, series);
    }
    return found;
  }

  #offerShown(pods) {
    const { shown, shownChoice } = this.parts;
    const values = pods > MOST_LINES ? ["mean", "sum"] : ["each", "mean", "sum"];
    shown.replaceChildren(...values.map((value) => h("option", { value }, SHOWN[value])));
    shownChoice.hidden = pods < 2;
  }
}

async function ofPod(pod, params) {
  try {
    return await get(`/api/metrics/${encodeURIComponent(pod)}/`, params);
  } catch (error) {
    // A pod that is gone, and of which nothing is left.
    if (error.status === 404) return {};
    throw error;
  }
}

function toRate(figure, points, from) {
  const series = toSeries(points);
  const used = figure.isCounter ? rate(series) : series;
  const first = used.times.findIndex((time) => time >= from);
  const column = (name) =>
    first < 0 ? [] : used[name].slice(first).map((value) => value / (figure.by ?? 1));
  return {
    times: first < 0 ? [] : used.times.slice(first),
    values: column("values"),
    lows: column("lows"),
    highs: column("highs"),
  };
}

function endOf(run) {
  return run.finished_at ? Date.parse(run.finished_at) + AFTER_MS : now();
}

function nothing(figure) {
  return (
    `${figure.text} was not measured while the run went on: ` +
    "it was too short, or nothing here measures it."
  );
}
