// The sections "Training" and "Throughput": charts of a run's metrics.

import { now } from "../api.js";
import { Chart } from "../chart.js";
import { Charts, offerCharts } from "../charts.js";
import { byId, getParam, getParams, setNotice, setOptions, setParams } from "../dom.js";
import { isPercent, metric as formatMetric, metricTitle, plural, samples as samplesOf } from "../format.js";
import { extentOf } from "../lines.js";
import { Look } from "../look.js";
import { styleOf } from "../plot.js";
import { EMPTY, merged, sum, within, withGaps } from "../series.js";
import { notFiniteOf } from "../records.js";
import { menu } from "../ui.js";
import { ALL, CLOCKS, EACH, chartsOf, clockAxis, curvesOf, filtersOf, isOfAll, plottable, throughput, timeAxis } from "./curves.js";
import { SeriesStore, expire } from "./series-store.js";

/** @import { Result, Run, RunEvent, Schemas } from "../records.js" */

const POINTS = 1000;
// Shared by all ranks, when all are fetched.
const POINTS_OF_ALL = 40_000;
const THROUGHPUT_POINTS_OF_ALL = 20_000;
// Asked for before it is known which metrics there are.
const USUAL = ["train_loss", "val_global_loss", "train_Prec@1", "val_global_Prec@1", "val_global_Perplexity"];
const FEW_POINTS = 40;
// More lines are hard to distinguish, and more ranks take long to fetch.
const MAX_LINES = 8;
const MAX_RANKS_AT_FIRST = 16;
const NO_THROUGHPUT = "Too few samples for a curve: ranks record this value once a second.";

/** The section "Training". */
export class Training {
  #charts = new Charts(byId("charts"), (title) => {
    this.#keep(this.#added.filter((metric) => metric !== title));
    this.#draw();
  });
  #axis = byId("axis");
  #ranks = byId("ranks-shown");
  #metric = byId("metric");
  #look = new Look(() => this.#shown.chosen && this.#draw());
  #added = getParams("metric");
  #metrics = null;
  #asked = [];
  #hasRanks = (/** @type {string} */ _metric) => true;
  /** @type {RunEvent[]} */
  #restarts = [];
  #resumptions = 0;
  #outside = 0;
  #hasBelow = true;
  /** @type {[number, number] | undefined} the range of the horizontal axis that all charts of the stack show */
  extent;
  /** @type {Schemas["RankProfile"][]} */
  #profiles = [];
  #shown = { chosen: "", axis: "wall" };
  /** @type {Run | null} */
  #run = null;

  /**
   * @param {number} runId
   * @param {() => void} onChange called after a choice that needs other data
   * @param {() => void} onAxis called when there is another axis
   * @param {() => void} onDraw called when the charts were drawn, maybe over another range
   */
  constructor(runId, onChange, onAxis, onDraw) {
    this.onAxis = onAxis;
    this.onDraw = onDraw;
    // Unlike a menu of links, it stays open for several choices.
    byId("view-items").addEventListener("click", (event) => event.stopImmediatePropagation());
    menu(byId("view"), byId("view-items"));
    const asked = /** @type {HTMLInputElement | null} */ (document.getElementById(`axis-${getParam("axis")}`));
    if (asked) asked.checked = true;
    this.recorded = new SeriesStore(runId, POINTS);
    this.discarded = new SeriesStore(runId, POINTS, "discarded");
    this.#axis.addEventListener("change", () => {
      setParams({ axis: this.#axisChosen() });
      onChange();
    });
    this.#ranks.addEventListener("change", onChange);
    this.#metric.addEventListener("change", () => {
      this.#keep([...this.#added, this.#metric.value]);
      onChange();
    });
  }

  /**
   * Set the metrics that the run has recorded so far.
   * @param {import("../records.js").Schemas["RunMetric"][]} metrics
   * @returns {boolean} whether something that should be shown was not fetched
   */
  setMetrics(metrics) {
    this.#metrics = metrics.map((metric) => metric.name);
    for (const [axis, clock] of Object.entries(CLOCKS))
      byId(`axis-${axis}`).parentElement.hidden = !this.#metrics.includes(clock);
    const without = new Set(metrics.filter((metric) => !metric.has_ranks).map((metric) => metric.name));
    this.#hasRanks = (metric) => !without.has(metric);
    if (!this.#run) return false;
    const isMissing = this.#filters(this.#shown).some((filter) => !this.#asked.includes(filter));
    if (!isMissing) this.#draw();
    return isMissing;
  }

  /** Set whether another chart of the stack is below, which then labels the horizontal axis. */
  setBelow(/** @type {boolean} */ hasBelow) {
    if (hasBelow === this.#hasBelow) return;
    this.#hasBelow = hasBelow;
    this.#draw();
  }

  /** Set the run's events: restarts are marked. */
  setEvents(/** @type {RunEvent[]} */ events) {
    this.#restarts = events.filter((event) => event.kind === "restarted");
    if (this.#shown.chosen) this.#draw();
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

  /** Set the profiles of the run's ranks: the seconds of those that are done are marked. */
  setProfiles(/** @type {Schemas["RankProfile"][]} */ profiles) {
    this.#profiles = profiles.filter((profile) => profile.tool);
    if (this.#shown.chosen) this.#draw();
  }

  /**
   * Fetch the shown series, and draw them.
   * @param {Run} run
   * @param {boolean} isReload whether to fetch everything again
   */
  async refresh(run, isReload) {
    if (this.#run?.world_size !== run.world_size) this.#offerRanks(run.world_size);
    this.#run = run;
    const shown = { chosen: this.#ranks.value, axis: this.#axisChosen() };
    this.#asked = this.#filters(shown);
    if (this.#asked.length) {
      const points = isOfAll(shown.chosen) ? POINTS_OF_ALL / run.world_size : POINTS;
      for (const recorded of [this.recorded, ...(this.#resumptions ? [this.discarded] : [])]) {
        recorded.points = Math.max(FEW_POINTS, Math.min(POINTS, Math.floor(points)));
        await recorded.refresh(this.#asked, isReload);
      }
    }
    const isOther = shown.axis !== this.#shown.axis;
    this.#shown = shown;
    this.#draw();
    if (isOther) this.onAxis();
  }

  #keep(/** @type {string[]} */ added) {
    this.#added = added;
    setParams({ metric: added });
  }

  #axisChosen() {
    return this.#axis.querySelector(":checked").value;
  }

  #filters({ chosen, axis }) {
    const metrics = this.#wanted().flatMap((chart) => chart.metrics);
    const all = metrics.length && CLOCKS[axis] ? [...metrics, CLOCKS[axis]] : metrics;
    return filtersOf(all, chosen, this.#hasRanks);
  }

  #draw() {
    const wanted = this.#wanted();
    const charts = wanted.filter(({ metrics }) =>
      metrics.some((metric) => this.recorded.series.has(metric)),
    );
    const shown = new Set(wanted.flatMap((chart) => chart.metrics));
    offerCharts(this.#metric, plottable(this.#metrics ?? []).filter((metric) => !shown.has(metric)));
    setNotice(byId("no-charts"), charts.length ? "" : this.#emptyText(wanted));
    this.#charts.show(charts.map(({ title, isAdded }) => ({ title, label: `${title} over the run`, isAdded })));
    this.#outside = 0;
    const axis = this.axis();
    const drawn = charts.map((chart) => ({ ...chart, lines: this.#linesOf(chart, axis) }));
    const extent = extentOf(drawn.flatMap(({ lines }) => lines.map(({ x }) => x)));
    this.extent = extent[0] < extent[1] ? extent : undefined;
    drawn.forEach((chart, i) => this.#drawOne(chart, axis, i === drawn.length - 1 && !this.#hasBelow));
    this.onDraw();
    const outside = this.#outside && `${plural(this.#outside, "value")} with a time outside of the run, not shown`;
    setNotice(byId("outside"), outside || "");
  }

  #wanted() {
    const target = this.#run?.target?.metric ?? null;
    const usual = chartsOf(this.#metrics ?? [...USUAL, target].filter(Boolean), target);
    return [
      ...usual.map((chart) => ({ ...chart, isAdded: false })),
      ...this.#added.map((metric) => ({ title: metric, metrics: [metric], isAdded: true })),
    ];
  }

  #linesOf({ metrics }, /** @type {import("./curves.js").Axis} */ axis) {
    const curves = metrics.flatMap((metric) => this.#curves(metric));
    const styles = curves.length === metrics.length ? stylesOf(metrics) : curves.map(({ rank }, i) => rank ?? i);
    const placed = ({ series, rank }, on) => {
      const { times, values: y, lows, highs } = withGaps(series, this.#restarts.map(timeOf));
      return { x: on.place(times, rank), y, lows, highs };
    };
    const withDiscarded = this.axis(true);
    return curves.map((curve, i) => {
      const behind = curve.discarded.map((branch) => placed(branch, withDiscarded));
      const points = curve.series.times.length < FEW_POINTS;
      const name = curve.name.replace(curve.metric, metricTitle(curve.metric));
      return { name, hint: curve.name, ...placed(curve, axis), behind, ...styleOf(styles[i]), points };
    });
  }

  #drawOne({ title, metrics, lines }, /** @type {import("./curves.js").Axis} */ axis, /** @type {boolean} */ isLast) {
    const { target, target_reached_at: reached } = this.#run;
    const targets = target && metrics.includes(target.metric) ? [target] : [];
    this.#charts.get(title).draw(lines, {
      x: axis.title,
      shared: axis.shared,
      stacked: isLast ? "last" : "above",
      extent: this.extent,
      ...this.#look.axes(metrics),
      ySuffix: metrics.every(isPercent) ? " %" : "",
      marks: targets.map(({ metric, value }) => ({
        y: value,
        colour: "--good",
        at: reached ? axis.place([Date.parse(reached)])[0] : NaN,
        text: `target ${formatMetric(metric, value)}`,
      })),
      moments: this.#moments(axis),
      bands: this.#bands(metrics, axis),
    });
  }

  // The curves of a metric, each with its discarded branches.
  #curves(metric) {
    const ofLine = ({ series }) => curvesOf(metric, this.#inside(series.get(metric) ?? new Map()), this.#shown.chosen);
    const [kept, left] = [this.recorded, this.discarded].map(ofLine);
    const isOf = (curve) => (branch) => kept.length === 1 || branch.rank === curve.rank;
    return kept.map((curve) => ({ ...curve, metric, discarded: left.filter(isOf(curve)) }));
  }

  // Samples with a time within the run, by rank; the others are counted.
  #inside(/** @type {Map<number | null, import("../series.js").Series>} */ ranks) {
    const { started_at: start, finished_at: end } = this.#run;
    if (!start) return ranks;
    const found = [...ranks].map(([rank, series]) => {
      const { series: inside, outside } = within(series, Date.parse(start), end ? Date.parse(end) : now());
      this.#outside += outside;
      return /** @type {const} */ ([rank, inside]);
    });
    return new Map(found);
  }

  /** @returns {import("./curves.js").Axis} the horizontal axis of all charts, also of discarded branches. */
  axis(withDiscarded = false) {
    const { axis } = this.#shown;
    if (axis !== "wall") {
      const clocksOf = ({ series }) => series.get(CLOCKS[axis]) ?? new Map();
      const [kept, left] = [this.recorded, this.discarded].map(clocksOf);
      const all = new Map(kept);
      for (const [rank, clock] of left) all.set(rank, merged(kept.get(rank) ?? EMPTY, clock));
      return clockAxis(axis, withDiscarded ? all : kept);
    }
    const { started_at: start, finished_at: end } = this.#run;
    return timeAxis(start, end ? Date.parse(end) : now());
  }

  #moments(axis) {
    const places = axis.place(this.#restarts.map(timeOf), 0);
    return this.#restarts
      .map((event, i) => ({ x: places[i], text: event.rank === null ? `attempt ${event.attempt}` : "restart" }))
      .filter(({ x }) => Number.isFinite(x));
  }

  // Where the loss is not finite, and where a profile slowed the run down.
  #bands(metrics, axis) {
    const spans = this.#profiles.map((profile) => ({
      ...{ from: profile.began_at, to: profile.ended_at, rank: profile.rank },
      text: `profile of rank ${profile.rank}`,
    }));
    const loss = this.#run.not_finite;
    if (loss && metrics.includes(loss.metric)) {
      const text = notFiniteOf(this.#run);
      spans.push({ from: loss.since, to: this.#run.finished_at, rank: Number(loss.rank), text });
    }
    return spans
      .map(({ from, to: end, rank, text }) => {
        const [x, to] = axis.place([Date.parse(from), end ? Date.parse(end) : now()], rank);
        return { x, to, text };
      })
      .filter(({ x }) => Number.isFinite(x));
  }

  #offerRanks(/** @type {number} */ count) {
    const all = [...(count > 1 ? [ALL] : []), ...(count > MAX_LINES ? [] : [EACH])];
    const ranks = Array.from({ length: count }, (_, rank) => String(rank));
    const texts = { [ALL]: "All: mean and range", [EACH]: "All: one line each" };
    setOptions(this.#ranks, [...all, ...ranks], (value) => texts[value] ?? `Rank ${value}`);
    this.#ranks.value = count > MAX_RANKS_AT_FIRST || count === 1 ? "0" : ALL;
    byId("ranks-choice").hidden = count === 1;
  }

  #emptyText(wanted) {
    if (!this.#run.started_at) return "The run has not started.";
    if (!this.#metrics || wanted.length) return "Loading…";
    const isOver = this.#run.finished_at !== null;
    if (!this.#metrics.length)
      return isOver ? "No samples recorded." : "No samples recorded yet.";
    return "No loss or accuracy recorded. Choose another metric.";
  }
}

// The style of each metric's curve: training is the first one, validation the second, on all charts.
function stylesOf(/** @type {string[]} */ metrics) {
  const kinds = metrics.map((metric) => (/^(val|eval|test)/.test(metric) ? 1 : 0));
  return kinds.map((kind, i) => (kinds.indexOf(kind) === i ? kind : i + 2));
}

function timeOf(/** @type {RunEvent} */ event) {
  return Date.parse(event.time);
}

// When the first rank's training time began.
function startOf(/** @type {Map<number | null, import("../series.js").Series>} */ clocks) {
  const starts = [...clocks.values()].filter(({ times }) => times.length).map(({ times, values }) => times[0] - 1000 * values[0]);
  return starts.length ? Math.min(...starts) : null;
}

/** The section "Throughput". */
export class Throughput {
  #place = byId("throughput-chart");
  /** @type {{ times: number[], values: number[] }} */
  #rate = { times: [], values: [] };
  #name = "";

  constructor(/** @type {number} */ runId) {
    this.recorded = new SeriesStore(runId, POINTS);
    this.chart = new Chart(this.#place, "Samples per second over the run");
    this.hasAny = true;
    /** @type {number | null} when training began, in Unix milliseconds; null if unknown */
    this.startedAt = null;
  }

  /**
   * Fetch the totals of samples.
   * @param {Run} run
   * @param {boolean} isReload
   */
  async refresh(run, isReload) {
    const points = Math.floor(THROUGHPUT_POINTS_OF_ALL / run.world_size);
    this.recorded.points = Math.max(50, Math.min(POINTS, points));
    await this.recorded.refresh(["samples", "train_seconds"], isReload);
    const [samples, clocks] = ["samples", "train_seconds"].map(
      (metric) => this.recorded.series.get(metric) ?? new Map(),
    );
    this.#rate = throughput(samples, clocks);
    this.#name = `${samplesOf(run).toLowerCase()}/s, all ranks`;
    this.startedAt = startOf(clocks);
    this.hasAny = this.#rate.times.length > 0;
    byId("throughput").hidden = !run.started_at || run.benchmark === "communication";
    this.#place.hidden = !this.hasAny;
    setNotice(byId("no-throughput"), this.hasAny ? "" : NO_THROUGHPUT);
  }

  /** Draw the rate over an axis and the range of the charts above. */
  draw(/** @type {import("./curves.js").Axis} */ axis, /** @type {[number, number] | undefined} */ extent) {
    if (!this.#rate.times.length) return;
    const line = { name: this.#name, x: axis.place(this.#rate.times), y: this.#rate.values, step: true, ...styleOf(2) };
    this.chart.draw([line], { x: axis.title, shared: axis.shared, stacked: "last", extent, fromZero: true });
  }
}
