// The section "Curves": metrics of all runs, a chart each, each run from its own start.

import { Charts, offerCharts } from "../charts.js";
import { byId, setText } from "../dom.js";
import { isPercent, metric as formatMetric } from "../format.js";
import { Look } from "../look.js";
import { styleOfRun } from "../plot.js";
import { labelOf } from "../records.js";
import { CLOCKS, wholeClock } from "../run/curves.js";
import { interpolate, within } from "../series.js";
import { toGroupLines } from "./groups.js";

/**
 * @import { Result } from "../records.js"
 * @import { Found } from "./loader.js"
 * @import { View } from "./choice.js"
 * @typedef {{ x: number[], y: number[], lows?: number[], highs?: number[] }} Columns
 */

/** The horizontal axes, in the order in which they are tried. */
export const AXES = ["training", "wall", "step", "epoch"];
// A curve of fewer points shows each of them.
const FEW_POINTS = 40;
// The bands of more curves would cover each other.
const MAX_BANDS = 4;
const NO_COLUMNS = { x: [], y: [] };
const TITLES = { training: "training time [s]", wall: "wall-clock time [s]", step: "step", epoch: "epoch" };

export class Curves {
  #drawing = 0;
  /** @type {string[]} */
  #metrics = [];
  #metric = byId("metric");
  #charts = new Charts(byId("curves-charts"), (title) => this.#choose((metric) => metric !== title));
  #axes = AXES.map((axis) => byId(`axis-${axis}`));
  #ofGroups = byId("curves-of-groups");
  #quantiles = JSON.parse(this.#ofGroups.dataset.quantiles);
  #look = new Look(() => this.shown && this.#draw());

  /**
   * @param {import("./loader.js").Loader} loader
   * @param {(choice: { metrics?: string[], axis?: string, ofGroups?: boolean }) => void} onChoice
   */
  constructor(loader, onChoice) {
    this.loader = loader;
    this.onChoice = onChoice;
    this.#metric.addEventListener("change", () => this.#choose(() => true, this.#metric.value));
    for (const radio of this.#axes)
      radio.addEventListener("change", () => onChoice({ axis: radio.value }));
    this.#ofGroups.addEventListener("change", () => onChoice({ ofGroups: this.#ofGroups.checked }));
  }

  async show(/** @type {Found} */ answer, /** @type {View} */ view) {
    const drawing = ++this.#drawing;
    const { results, groups } = answer.comparison;
    const hasGroups = groups.some((group) => group.run_ids.length > 1);
    this.#ofGroups.checked = view.ofGroups;
    this.#ofGroups.parentElement.hidden = !hasGroups;
    const targets = results.map((result) => result.target?.metric).filter(Boolean);
    const shownOf = (offered) => (view.metrics.length ? view.metrics : offered.slice(0, 1));
    const offering = this.loader.metrics(answer.manifests).then((recorded) => {
      const offered = [...new Set([...targets, ...recorded])];
      const others = offered.filter((metric) => !shownOf(offered).includes(metric));
      if (drawing === this.#drawing) offerCharts(this.#metric, others);
      return offered;
    });
    // A known metric is drawn before it is known which others there are.
    const isKnown = view.metrics.length || targets.length;
    const metrics = shownOf(isKnown ? targets : await offering);
    if (drawing === this.#drawing) this.#metrics = metrics;
    const { axis, columns } = await this.#columnsOn(answer, metrics, view.axis);
    if (drawing !== this.#drawing) return;
    this.shown = { results, groups: hasGroups && view.ofGroups ? groups : null, columns, metrics, axis };
    this.#draw();
    await offering;
  }

  fail(/** @type {Error} */ error) {
    setText(byId("curves-note"), error.message);
  }

  #choose(/** @type {(metric: string) => boolean} */ isKept, /** @type {string[]} */ ...added) {
    this.onChoice({ metrics: [...this.#metrics.filter(isKept), ...added] });
  }

  // Unless one was chosen, the first axis that the runs have recorded.
  async #columnsOn(answer, /** @type {string[]} */ metrics, chosen) {
    for (const axis of chosen ? [chosen] : AXES) {
      const columns = await Promise.all(metrics.map((metric) => this.#columns(answer, metric, axis)));
      if (chosen || columns.flat().some(({ x }) => x.length)) return { axis, columns };
    }
    return { axis: AXES[0], columns: metrics.map(() => answer.comparison.results.map(() => NO_COLUMNS)) };
  }

  /** @returns {Promise<Columns[]>} of each run */
  #columns({ comparison, manifests }, metric, axis) {
    return Promise.all(
      comparison.results.map(async (/** @type {Result} */ result, i) => {
        const isInResult = result.target?.metric === metric && result.curve !== null;
        if (isInResult && ["training", "wall"].includes(axis)) return ofResult(result, axis);
        const recorded = await this.loader.recorded(manifests[i], metric, axis);
        return ofRecorded(recorded, metric, axis, manifests[i].started_at, result.wall_seconds);
      }),
    );
  }

  #draw() {
    const { metrics, axis } = this.shown;
    for (const radio of this.#axes) radio.checked = radio.value === axis;
    this.#charts.show(metrics.map((title) => ({ title, label: `${title} of each run`, isAdded: metrics.length > 1 })));
    const notes = metrics.map((metric, i) => this.#drawOne(metric, this.shown.columns[i]));
    setText(byId("curves-note"), metrics.length ? notes.filter(Boolean).join(" ") : "No samples recorded yet.");
  }

  /** @returns {string} a note on curves that are missing in the chart of a metric */
  #drawOne(/** @type {string} */ metric, /** @type {Columns[]} */ columns) {
    const { results, groups, axis } = this.shown;
    const without = results.filter((_, i) => columns[i].x.length === 0).map((result) => result.run_id);
    const chart = this.#charts.get(metric);
    chart.element.hidden = without.length === results.length;
    if (chart.element.hidden) return `No values of ${metric} on this axis.`;
    const look = this.#look.axes([metric]);
    chart.draw(groups ? toGroupLines(groups, results, columns, look, this.#quantiles) : toLines(results, columns), {
      x: TITLES[axis],
      shared: { axis, unit: 1 },
      y: metric,
      ...look,
      ySuffix: isPercent(metric) ? " %" : "",
      marks: toMarks(results, metric),
      ...(groups && { smoothing: 0 }), // the runs are
    });
    const runs = without.length > 1 ? "runs" : "run";
    return without.length ? `No values of ${metric} on this axis: ${runs} ${without.join(", ")}.` : "";
  }
}

// The curve that a result holds.
function ofResult(/** @type {Result} */ { curve }, axis) {
  const x = axis === "training" ? curve.training_seconds : curve.wall_seconds;
  return finite({ x, y: curve.values });
}

/**
 * @param {import("../series.js").ByMetric} recorded
 * @param {string} metric
 * @param {string} axis
 * @param {string | null} startedAt when the run started
 * @param {number | null} [seconds] how long it went on, so far
 * @returns {Columns} the curve that the run's lowest rank recorded
 */
export function ofRecorded(recorded, metric, axis, startedAt, seconds = null) {
  const byRank = recorded.get(metric) ?? new Map();
  const [rank] = [...byRank.keys()].sort((a, b) => (a ?? -1) - (b ?? -1));
  const all = byRank.get(rank);
  if (!all || startedAt === null) return NO_COLUMNS;
  const start = Date.parse(startedAt);
  const series = seconds === null ? all : within(all, start, start + 1000 * seconds).series;
  const clock = recorded.get(CLOCKS[axis])?.get(rank);
  if (axis !== "wall" && !clock) return NO_COLUMNS;
  const x =
    axis === "wall"
      ? series.times.map((time) => (time - start) / 1000)
      : interpolate(wholeClock(axis, clock), series.times);
  return finite({ x, y: series.values, lows: series.lows, highs: series.highs });
}

/** @returns {import("../plot.js").Line[]} one per result. */
export function toLines(/** @type {Result[]} */ results, /** @type {Columns[]} */ columns) {
  const hasBands = columns.filter(({ x }) => x.length).length <= MAX_BANDS;
  const ids = results.map((result) => result.run_id);
  return results.map((result, i) => {
    const { x, y, lows, highs } = columns[i];
    const style = styleOfRun(result.run_id, ids);
    const line = { name: labelOf(result), x, y, ...style, points: x.length < FEW_POINTS };
    return hasBands ? { ...line, lows, highs } : line;
  });
}

/** @returns {{ y: number, text: string }[]} the targets that are values of a metric. */
export function toMarks(/** @type {Result[]} */ results, /** @type {string} */ metric) {
  const targets = results.map((result) => result.target).filter((target) => target?.metric === metric);
  const values = [...new Set(targets.map((target) => target.value))];
  return values.map((y) => ({ y, text: `target ${formatMetric(metric, y)}` }));
}

// Without the points that have no place on the axis.
function finite(/** @type {Columns} */ columns) {
  const isThere = columns.x.map((value) => value != null && Number.isFinite(value));
  const pick = (column) => column?.filter((_, i) => isThere[i]);
  const { x, y, lows, highs } = columns;
  return { x: pick(x), y: pick(y), lows: pick(lows), highs: pick(highs) };
}
