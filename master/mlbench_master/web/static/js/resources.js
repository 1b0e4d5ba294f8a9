// The section "Resources": resource use of workers over time.

import { get, getOrNull } from "./api.js";
import { Chart } from "./chart.js";
import { byId, setNotice, setOptions } from "./dom.js";
import { styleOf } from "./plot.js";
import { combine, filter, longest, mapColumns, mean } from "./series.js";
import { FIGURES, seriesOf } from "./workers/usage.js";

/**
 * @import { Series } from "./series.js"
 *
 * Which pods, from when until when in Unix milliseconds, and the axis to draw that on; with no
 * pods, `none` says why.
 * @typedef {{ pods: string[], from: number, until: number, none?: string,
 *   axis: { title: string, shared?: import("./look.js").Shared, place: (times: number[]) => number[] } }} Usage
 */

const POINTS = 300;
const POINTS_OF_ALL = 20_000;
// More workers are drawn as their mean and range.
const MAX_LINES = 8;
const MAX_REQUESTS = 16;
// A counter's first rate needs the value before.
const BEFORE_MS = 10_000;

export class Resources {
  #figure = byId("figure");
  #chart = new Chart(byId("resources-chart"), "Resource use");

  /** Call `onChange` when another figure was chosen, and must be fetched. */
  constructor(/** @type {() => void} */ onChange) {
    setOptions(this.#figure, Object.keys(FIGURES), (figure) => FIGURES[figure].title);
    this.#figure.addEventListener("change", onChange);
  }

  /** Fetch the chosen figure of the pods, and draw it. */
  async refresh(/** @type {Usage} */ usage) {
    const { none, axis } = usage;
    const figure = FIGURES[this.#figure.value];
    const byPod = await fetchSeries(figure, usage);
    const all = byPod.map(({ series }) => series);
    const lines =
      all.length > MAX_LINES ? [{ name: `mean and range of ${all.length} workers`, series: combine(longest(all), all, mean) }] : byPod;
    byId("resources-chart").hidden = !lines.length;
    setNotice(byId("no-resources"), lines.length ? "" : none || `${figure.title}: no measurements in this period.`);
    const placed = lines.map(({ name, series: { times, values: y, lows, highs } }, i) => {
      return { name, x: axis.place(times), y, lows, highs, colour: styleOf(i).colour };
    });
    if (lines.length) this.#chart.draw(placed, { x: axis.title, shared: axis.shared, y: figure.unit, fromZero: true });
  }
}

/** @returns {Promise<{ name: string, series: Series }[]>} the values of each pod that has any. */
async function fetchSeries(figure, /** @type {Usage} */ { pods, from, until }) {
  const params = {
    metric_filter: figure.metric,
    since: new Date(from - BEFORE_MS).toISOString(),
    until: new Date(until).toISOString(),
    summarize: Math.min(POINTS, Math.floor(POINTS_OF_ALL / Math.max(1, pods.length))),
  };
  const whole = pods.length > MAX_REQUESTS ? await get("/api/metrics/", params) : null;
  const all = pods.map(async (name) => {
    // A pod that is gone may have no samples left.
    const answer = whole ? whole[name] : await getOrNull(`/api/metrics/${encodeURIComponent(name)}/`, params);
    const series = seriesOf(answer ?? {}, figure.metric);
    const used = filter(series, (i) => series.times[i] >= from);
    return { name, series: mapColumns(used, (column, part) => (part === "times" ? column : column.map((value) => value / figure.by))) };
  });
  return (await Promise.all(all)).filter(({ series }) => series.times.length);
}
