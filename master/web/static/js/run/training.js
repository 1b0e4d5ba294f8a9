// The charts of loss, accuracy and whatever else a run records.

import { now } from "../api.js";
import { Chart } from "../chart.js";
import { h, keep, setText } from "../dom.js";
import { metric as writeMetric } from "../format.js";
import { lineColour } from "../plot.js";
import { chartsOf, counterAt, curvesOf as curveMetrics, timeAxis, withGaps } from "./curves.js";
import { Recorded } from "./recorded.js";
import { curvesOf, filtersOf, isOfAll, offer } from "./shown.js";

const POINTS = 1000;
// Of many ranks, each gets fewer.
const POINTS_OF_ALL = 40_000;
const LINE_COLOURS = 7;
// What tasks record: asked for before it is known what there is.
const USUAL = ["train_loss", "val_global_loss", "train_Prec@1", "val_global_Prec@1"];
const FEW_POINTS = 40;
const DASHES = ["solid", "dash", "dot"];

/** The section "Training". */
export class Training {
  /**
   * @param {Record<string, any>} parts charts, empty, axis, ranks, ranksChoice, metric
   * @param {number} runId
   * @param {() => void} onChange that what is shown was chosen, and must be fetched
   */
  constructor(parts, runId, onChange) {
    this.parts = parts;
    this.recorded = new Recorded(runId, POINTS);
    this.drawn = new Map();
    this.added = [];
    this.metrics = null;
    this.asked = [];
    this.hasRanks = () => true;
    this.events = [];
    this.shown = { chosen: "", isByStep: false };
    parts.axis.addEventListener("change", onChange);
    parts.ranks.addEventListener("change", onChange);
    parts.metric.addEventListener("change", () => {
      this.added.push(parts.metric.value);
      onChange();
    });
    parts.charts.addEventListener("click", (event) => {
      const metric = event.target.closest("button")?.dataset.metric;
      if (!metric) return;
      this.added = this.added.filter((one) => one !== metric);
      this.#redraw();
    });
  }

  /**
   * Say what the run has recorded so far.
   * @param {Map<string, Map<number | null, number>>} last values by metric and rank
   * @returns {boolean} whether there is something to show that was not asked for
   */
  know(last) {
    this.metrics = [...last.keys()];
    // What is posted to a run belongs to no rank.
    this.hasRanks = (metric) => !last.get(metric)?.has(null);
    if (!this.run) return false;
    const isMissing = this.#filters(this.shown).some((filter) => !this.asked.includes(filter));
    if (!isMissing) this.#redraw();
    return isMissing;
  }

  /** Say what has happened to the run: restarts are marked. */
  mark(/** @type {object[]} */ events) {
    this.events = events;
    if (this.shown.chosen) this.#redraw();
  }

  /**
   * Fetch what is shown, and draw it.
   * @param {any} run
   * @param {boolean} isWhole whether to fetch all anew
   */
  async refresh(run, isWhole) {
    if (!this.run) this.#offerRanks(run);
    this.run = run;
    const { axis, ranks } = this.parts;
    const shown = {
      chosen: ranks.value,
      isByStep: axis.querySelector(":checked").value === "step",
    };
    this.asked = this.#filters(shown);
    if (this.asked.length) {
      const points = isOfAll(shown.chosen) ? POINTS_OF_ALL / run.num_workers : POINTS;
      this.recorded.points = Math.max(100, Math.min(POINTS, Math.floor(points)));
      await this.recorded.refresh(this.asked, isWhole);
    }
    this.shown = shown;
    await this.draw();
  }

  #filters({ chosen, isByStep }) {
    const metrics = this.#charts().flatMap((chart) => chart.metrics);
    const all = metrics.length && isByStep ? [...metrics, "step"] : metrics;
    return filtersOf(all, chosen, this.hasRanks);
  }

  /**
   * Draw what was fetched.
   * @returns {Promise<unknown>}
   */
  draw() {
    const { parts } = this;
    const wanted = this.#charts();
    const charts = wanted.filter(({ metrics }) =>
      metrics.some((one) => this.recorded.series.has(one)),
    );
    this.#offerMetrics(wanted);
    parts.empty.hidden = charts.length > 0;
    setText(parts.empty, this.#emptyText(wanted));
    keep(
      parts.charts,
      charts,
      (chart) => chart.title,
      (chart) => this.#create(chart),
      () => {},
    );
    for (const title of this.drawn.keys()) {
      if (!charts.some((chart) => chart.title === title)) this.drawn.delete(title);
    }
    return Promise.all(charts.map((chart) => this.#drawOne(chart)));
  }

  // Where it fails, the next refresh says so.
  #redraw() {
    this.draw().catch(() => {});
  }

  #charts() {
    const goal = this.run?.goal?.metric ?? null;
    const usual = chartsOf(this.metrics ?? [...USUAL, goal].filter(Boolean), goal);
    const added = this.added.map((metric) => ({ title: metric, metrics: [metric], isAdded: true }));
    return [...usual.map((chart) => ({ ...chart, isAdded: false })), ...added];
  }

  #create({ title, isAdded }) {
    const place = h("div");
    this.drawn.set(title, new Chart(place, `${title} over the run`));
    const remove = h(
      "button",
      { type: "button", class: "quiet", "data-metric": title, "aria-label": `Remove ${title}` },
      "Remove",
    );
    const head = h("div", { class: "head" }, h("h3", {}, title), isAdded && remove);
    return h("div", { class: "chart-part" }, head, place);
  }

  #drawOne({ title, metrics }) {
    const axis = this.#axis();
    const { chosen } = this.shown;
    const curves = metrics.flatMap((metric) =>
      curvesOf(metric, this.recorded.series.get(metric) ?? new Map(), chosen),
    );
    const lines = curves.map(({ name, rank, series }, i) => {
      const { times, values, lows, highs } = withGaps(series, this.#restarts().map(timeOf));
      return {
        name,
        x: axis.place(times, rank),
        y: values,
        lows,
        highs,
        colour: lineColour(i),
        dash: DASHES[Math.floor(i / LINE_COLOURS) % DASHES.length],
        points: times.length < FEW_POINTS,
      };
    });
    const { goal } = this.run;
    const isGoals = goal && metrics.includes(goal.metric);
    return this.drawn.get(title).draw(lines, {
      x: axis.title,
      ySuffix: metrics.every((metric) => /Prec@\d+$/.test(metric)) ? " %" : "",
      marks: isGoals
        ? [{ y: goal.value, text: `goal ${writeMetric(goal.metric, goal.value)}` }]
        : [],
      moments: this.#moments(axis),
    });
  }

  #axis() {
    const steps = this.recorded.series.get("step") ?? new Map();
    if (this.shown.isByStep) {
      const any = steps.values().next().value;
      const none = (times) => times.map(() => NaN);
      return {
        title: "Step",
        place: (times, rank) => {
          const own = steps.get(rank) ?? any;
          return own ? counterAt(own, times) : none(times);
        },
      };
    }
    const { started_at: start, finished_at: end } = this.run;
    return timeAxis(start, end ? Date.parse(end) : now());
  }

  #moments(axis) {
    const restarts = this.#restarts();
    const places = axis.place(restarts.map(timeOf), 0);
    return restarts
      .map((event, i) => ({ x: places[i], text: `attempt ${event.attempt}` }))
      .filter(({ x }) => Number.isFinite(x));
  }

  #restarts() {
    return this.events.filter((event) => event.kind === "restarted");
  }

  #offerRanks(run) {
    offer(this.parts.ranks, run.num_workers);
    this.parts.ranksChoice.hidden = run.num_workers === 1;
  }

  #offerMetrics(charts) {
    const shown = new Set(charts.flatMap((chart) => chart.metrics));
    const others = curveMetrics(this.metrics ?? []).filter((metric) => !shown.has(metric));
    const { metric: select } = this.parts;
    const names = ["", ...others];
    const create = (value) => h("option", { value }, value || "Add a chart…");
    keep(
      select,
      names,
      (value) => value,
      create,
      () => {},
    );
    select.value = "";
    select.disabled = others.length === 0;
  }

  #emptyText(wanted) {
    if (!this.run.started_at) return "Nothing to draw: the run has not started.";
    if (!this.metrics || wanted.length) return "Loading…";
    const isOver = this.run.finished_at !== null;
    if (!this.metrics.length)
      return isOver ? "The run recorded nothing." : "Nothing is recorded so far.";
    return "This run records no loss and no accuracy. Choose a metric to see it.";
  }
}

function timeOf(event) {
  return Date.parse(event.time);
}
