// The section "Training": charts of a run's metrics and its throughput, over one axis.

import { now } from "../api.js";
import { Chart } from "../chart.js";
import { byId, getParam, getParams, h, reconcile, setNotice, setOptions, setParams } from "../dom.js";
import { isPercent, metric as formatMetric, metricTitle, plural, samples as samplesOf } from "../format.js";
import { Look, offerCharts } from "../look.js";
import { extentOf, styleOf } from "../plot.js";
import { notFiniteOf } from "../records.js";
import { EMPTY, SeriesStore, expire, merged, sum, within } from "../series.js";
import { menu } from "../ui.js";
import { ALL, CLOCKS, EACH, chartsOf, clockAxis, curvesOf, isOfAll, plottable, throughput, timeAxis } from "./curves.js";

/** @import { Series } from "../series.js" */
/** @import { Axis } from "./curves.js" */

const [TRAINING, VALIDATION] = [4, 0];
const POINTS = 1000;
// Shared by all ranks, when all are fetched.
const POINTS_OF_ALL = 40_000;
const RATES_OF_ALL = 20_000;
const FEW_POINTS = 40;
// More lines are hard to distinguish, and more ranks take long to fetch.
const MAX_LINES = 8;
const MAX_RANKS_AT_FIRST = 16;
const THROUGHPUT = "Throughput";

export class Training {
  /** @type {Map<string, Chart>} by title */
  #charts = new Map();
  #axis = byId("axis");
  #ranks = byId("ranks-shown");
  #metric = byId("metric");
  #look = new Look(() => this.#draw());
  #added = getParams("metric");
  /** @type {RunMetric[]} */
  #metrics = [];
  /** @type {[number, number] | undefined} the ends of the axis that all charts share */
  extent;
  /** @type {{ restarts: RunEvent[], profiles: RankProfile[] }} */
  #marked = { restarts: [], profiles: [] };
  #resumptions = 0;
  #outside = 0;
  #shown = { chosen: "", axis: "wall" };
  /** @type {Run | null} */
  #run = null;

  /** Call `onChange` after a choice that needs other data, and `onAxis` when there is another axis. */
  constructor(/** @type {number} */ runId, /** @type {() => void} */ onChange, /** @type {() => void} */ onAxis) {
    this.onAxis = onAxis;
    // Unlike a menu of links, it stays open for several choices.
    byId("view-items").addEventListener("click", (event) => event.stopImmediatePropagation());
    menu(byId("view"), byId("view-items"));
    const radio = byId(`axis-${getParam("axis")}`);
    if (radio) radio.checked = true;
    this.recorded = new SeriesStore(runId, POINTS);
    this.discarded = new SeriesStore(runId, POINTS, "discarded");
    this.totals = new SeriesStore(runId, POINTS);
    this.#axis.addEventListener("change", () => {
      setParams({ axis: this.#choices.axis });
      onChange();
    });
    this.#ranks.addEventListener("change", onChange);
    this.#metric.addEventListener("change", () => {
      this.#keep([...this.#added, this.#metric.value]);
      onChange();
    });
  }

  /** Set the metrics that the run has recorded so far; @returns {boolean} whether there are new ones, which must be fetched. */
  setMetrics(/** @type {RunMetric[]} */ metrics) {
    const isMore = metrics.length > this.#metrics.length;
    this.#metrics = metrics;
    for (const [axis, clock] of Object.entries(CLOCKS))
      byId(`axis-${axis}`).parentElement.hidden = !metrics.some(({ name }) => name === clock);
    return isMore;
  }

  /** Mark restarts, and the seconds of profiles. */
  mark(/** @type {{ restarts?: RunEvent[], profiles?: RankProfile[] }} */ marks) {
    Object.assign(this.#marked, marks);
    this.#draw();
  }

  /** Count discarded steps; @returns {boolean} whether there are new ones, which were fetched as part of the lineage. */
  setResumptions(/** @type {Result["resumptions"]} */ resumptions) {
    const lost = resumptions.map((resumption) => resumption.discarded_steps).filter(Boolean);
    const branches = lost.length === 1 ? "1 discarded branch" : `${lost.length} discarded branches`;
    setNotice(byId("discarded"), lost.length ? `Pale: ${branches}, ${plural(sum(lost), "step")}` : "");
    const isMore = resumptions.length > this.#resumptions;
    this.#resumptions = resumptions.length;
    if (isMore) expire();
    return isMore;
  }

  /** Fetch the shown series, all of them again for a reload, and draw them. */
  async refresh(/** @type {Run} */ run, /** @type {boolean} */ isReload) {
    if (this.#run?.world_size !== run.world_size) this.#offerRanks(run.world_size);
    this.#run = run;
    const shown = this.#choices;
    const filters = this.#filters(shown);
    for (const store of [this.recorded, ...(this.#resumptions ? [this.discarded] : [])]) {
      store.points = isOfAll(shown.chosen) ? pointsOf(run, POINTS_OF_ALL) : POINTS;
      if (filters.length) await store.refresh(filters, isReload);
    }
    const isOther = shown.axis !== this.#shown.axis;
    this.#shown = shown;
    this.#draw();
    if (isOther) this.onAxis();
  }

  /** Fetch the totals of samples, and draw the throughput. */
  async refreshThroughput(/** @type {Run} */ run, /** @type {boolean} */ isReload) {
    this.totals.points = pointsOf(run, RATES_OF_ALL);
    await this.totals.refresh(["samples", "train_seconds"], isReload);
    this.#draw();
  }

  /** @returns {number | null} when training began, in Unix milliseconds; null if unknown. */
  get startedAt() {
    const clocks = [...(this.totals.series.get("train_seconds")?.values() ?? [])].filter(({ times }) => times.length);
    return clocks.length ? Math.min(...clocks.map(({ times, values }) => times[0] - 1000 * values[0])) : null;
  }

  /** @returns {Axis} the horizontal axis of all charts, also of discarded branches. */
  axis(withDiscarded = false) {
    const { axis } = this.#shown;
    const { started_at: start, finished_at: end } = this.#run;
    if (axis === "wall") return timeAxis(start, end ? Date.parse(end) : now());
    const [clocks, left] = [this.recorded, this.discarded].map(({ series }) => series.get(CLOCKS[axis]) ?? new Map());
    const all = new Map(clocks);
    for (const [rank, clock] of left) all.set(rank, merged(clocks.get(rank) ?? EMPTY, clock));
    return clockAxis(axis, withDiscarded ? all : clocks);
  }

  get #choices() {
    return { chosen: this.#ranks.value, axis: this.#axis.querySelector(":checked").value };
  }

  #keep(/** @type {string[]} */ added) {
    this.#added = added;
    setParams({ metric: added });
  }

  #filters({ chosen, axis }) {
    const metrics = this.#chosenCharts().flatMap((chart) => chart.metrics);
    const all = metrics.length && CLOCKS[axis] ? [...metrics, CLOCKS[axis]] : metrics;
    const isWhole = (metric) => isOfAll(chosen) || this.#metrics.some(({ name, has_ranks }) => name === metric && !has_ranks);
    return all.map((metric) => (isWhole(metric) ? metric : `${metric} @ ${chosen}`));
  }

  #chosenCharts() {
    const usual = chartsOf(this.#metrics.map(({ name }) => name), this.#run.target?.metric ?? null);
    const added = this.#added.map((metric) => ({ title: metric, metrics: [metric], isAdded: true }));
    return [...usual.map((chart) => ({ ...chart, isAdded: false })), ...added];
  }

  #draw() {
    if (!this.#shown.chosen) return; // nothing was fetched yet
    const chosen = this.#chosenCharts();
    const axis = this.axis();
    this.#outside = 0;
    const ofMetrics = chosen
      .filter(({ metrics }) => metrics.some((metric) => this.recorded.series.has(metric)))
      .map((chart) => ({ ...chart, lines: this.#linesOf(chart, axis), axes: this.#axesOf(chart.metrics, axis) }));
    const [from, to] = extentOf(ofMetrics.flatMap(({ lines }) => lines.map(({ x }) => x)));
    this.extent = from < to ? [from, to] : undefined;
    const charts = [...ofMetrics, ...this.#throughput(axis)];
    reconcile(byId("charts"), charts, ({ title, isAdded }) => `${title} ${isAdded}`, (chart) => this.#makePart(chart));
    charts.forEach(({ title, lines, axes }, i) => this.#charts.get(title).draw(lines, {
      x: axis.title,
      shared: axis.shared,
      stacked: i === charts.length - 1 ? "last" : "above",
      extent: this.extent,
      ...axes,
    }));
    const shown = new Set(chosen.flatMap((chart) => chart.metrics));
    offerCharts(this.#metric, plottable(this.#metrics.map(({ name }) => name)).filter((metric) => !shown.has(metric)));
    setNotice(byId("no-charts"), ofMetrics.length ? "" : this.#emptyText(chosen.length > 0));
    setNotice(byId("outside"), this.#outside ? `${plural(this.#outside, "value")} with a time outside of the run, not shown` : "");
  }

  // A chart with its heading; a button removes one that was added.
  #makePart({ title, isAdded }) {
    const place = h("div");
    this.#charts.set(title, new Chart(place, `${title} over the run`));
    const onclick = () => {
      this.#keep(this.#added.filter((metric) => metric !== title));
      this.#draw();
    };
    const remove = isAdded && h("button", { type: "button", class: "quiet", "aria-label": `Remove ${title}`, onclick }, "Remove");
    return h("div", { class: "chart-part" }, h("div", { class: "head" }, h("h3", {}, title), remove), place);
  }

  #throughput(/** @type {Axis} */ axis) {
    const [samples, clocks] = ["samples", "train_seconds"].map((metric) => this.totals.series.get(metric) ?? new Map());
    const { times, values: y } = throughput(samples, clocks);
    const name = `${samplesOf(this.#run).toLowerCase()}/s, all ranks`;
    const line = { name, x: axis.place(times), y, points: times.length < FEW_POINTS, ...styleOf(2) };
    return times.length ? [{ title: THROUGHPUT, isAdded: false, lines: [line], axes: { fromZero: true } }] : [];
  }

  #linesOf({ metrics }, /** @type {Axis} */ axis) {
    const curves = metrics.flatMap((metric) => this.#curves(metric));
    const styles = curves.length === metrics.length ? stylesOf(metrics) : curves.map(({ rank }, i) => rank ?? i);
    const placed = ({ series: { times, values: y, lows, highs }, rank }, on) => ({ x: on.place(times, rank), y, lows, highs });
    const withDiscarded = this.axis(true);
    return curves.map((curve, i) => {
      const behind = curve.discarded.map((branch) => placed(branch, withDiscarded));
      const points = curve.series.times.length < FEW_POINTS;
      const name = curve.name.replace(curve.metric, metricTitle(curve.metric));
      return { name, hint: curve.name, ...placed(curve, axis), behind, ...styleOf(styles[i]), points };
    });
  }

  #axesOf(/** @type {string[]} */ metrics, /** @type {Axis} */ axis) {
    const { target, target_reached_at: reached } = this.#run;
    const mark = target && metrics.includes(target.metric) && {
      y: target.value,
      colour: "--good",
      at: reached ? axis.place([Date.parse(reached)])[0] : NaN,
      text: `target ${formatMetric(target.metric, target.value)}`,
    };
    const moments = axis.place(this.#marked.restarts.map(({ time }) => Date.parse(time)), 0).map((x, i) => {
      const { rank, attempt } = this.#marked.restarts[i];
      return { x, text: rank === null ? `attempt ${attempt}` : "restart" };
    });
    return {
      ...this.#look.axes(metrics),
      ySuffix: metrics.every(isPercent) ? " %" : "",
      marks: mark ? [mark] : [],
      moments: moments.filter(({ x }) => Number.isFinite(x)),
      bands: this.#bands(metrics, axis),
    };
  }

  // The curves of a metric, each with its discarded branches.
  #curves(/** @type {string} */ metric) {
    const [curves, left] = [this.recorded, this.discarded].map(({ series }) =>
      curvesOf(metric, this.#inside(series.get(metric) ?? new Map()), this.#shown.chosen),
    );
    const isOf = (curve) => (branch) => curves.length === 1 || branch.rank === curve.rank;
    return curves.map((curve) => ({ ...curve, metric, discarded: left.filter(isOf(curve)) }));
  }

  // Samples with a time within the run, by rank; the others are counted.
  #inside(/** @type {Map<number | null, Series>} */ ranks) {
    const { started_at: start, finished_at: end } = this.#run;
    if (!start) return ranks;
    return new Map([...ranks].map(([rank, series]) => {
      const { series: inside, outside } = within(series, Date.parse(start), end ? Date.parse(end) : now());
      this.#outside += outside;
      return /** @type {const} */ ([rank, inside]);
    }));
  }

  // Where the loss is not finite, and where a profile slowed the run down.
  #bands(/** @type {string[]} */ metrics, /** @type {Axis} */ axis) {
    const { not_finite: loss, finished_at: end } = this.#run;
    const spans = this.#marked.profiles.map((profile) => ({
      ...{ from: profile.began_at, to: profile.ended_at, rank: profile.rank },
      text: `profile of rank ${profile.rank}`,
    }));
    if (loss && metrics.includes(loss.metric))
      spans.push({ from: loss.since, to: end, rank: Number(loss.rank), text: notFiniteOf(this.#run) });
    const bands = spans.map(({ from, to: until, rank, text }) => {
      const [x, to] = axis.place([Date.parse(from), until ? Date.parse(until) : now()], rank);
      return { x, to, text };
    });
    return bands.filter(({ x }) => Number.isFinite(x));
  }

  #offerRanks(/** @type {number} */ count) {
    const all = [...(count > 1 ? [ALL] : []), ...(count > MAX_LINES ? [] : [EACH])];
    const ranks = Array.from({ length: count }, (_, rank) => String(rank));
    const texts = { [ALL]: "All: mean and range", [EACH]: "All: one line each" };
    setOptions(this.#ranks, [...all, ...ranks], (value) => texts[value] ?? `Rank ${value}`);
    this.#ranks.value = count > MAX_RANKS_AT_FIRST || count === 1 ? "0" : ALL;
    byId("ranks-choice").hidden = count === 1;
  }

  #emptyText(/** @type {boolean} */ isLoading) {
    if (!this.#run.started_at) return "The run has not started.";
    if (isLoading) return "Loading…";
    const what = this.#metrics.length ? "No loss or accuracy recorded. Choose another metric." : "No samples recorded.";
    const advice = "For curves, log values by mlbench.Tracker, TensorBoard or MLflow, or submit the run with --from-stdout.";
    return this.#run.benchmark ? what : `${what} ${advice}`;
  }
}

// The style of each metric's curve: training and validation have the colours of mlbench/contract/palette.py.
function stylesOf(/** @type {string[]} */ metrics) {
  const kinds = metrics.map((metric) => (/^(val|eval|test)/.test(metric) ? VALIDATION : TRAINING));
  return kinds.map((kind, i) => (kinds.indexOf(kind) === i ? kind : i + TRAINING));
}

// Share the points of all ranks among them.
function pointsOf(/** @type {Run} */ run, /** @type {number} */ all) {
  return Math.max(FEW_POINTS, Math.min(POINTS, Math.floor(all / run.world_size)));
}
