// The curves of all runs in one chart, with the choice of metric, clock and scale.

import { Chart } from "../chart.js";
import { h, keep, setText } from "../dom.js";
import { isPercent } from "../format.js";
import { goalMetrics, isInResult, ofRecorded, ofResult, toLines, toMarks } from "./curves.js";
import { Legend } from "./legend.js";
import { AXES } from "./view.js";

const TITLES = { training: "training time [s]", wall: "time since the start [s]", step: "step" };

/** The section "Curves". */
export class Overlay {
  #drawing = 0;

  /**
   * @param {{ metric: HTMLSelectElement, axes: HTMLInputElement[], scale: HTMLInputElement,
   *   scaleChoice: HTMLElement, chart: HTMLElement, legend: HTMLElement, note: HTMLElement }} parts
   * @param {import("./loading.js").Loader} loader
   * @param {(choice: { metric?: string, axis?: string, isLog?: boolean }) => void} onChoice
   */
  constructor(parts, loader, onChoice) {
    this.parts = parts;
    this.loader = loader;
    this.chart = new Chart(parts.chart, "The metric of each run over the time since its start");
    this.legend = new Legend(parts.legend, () => this.#draw().catch((error) => this.fail(error)));
    const { metric, axes, scale } = parts;
    metric.addEventListener("change", () => onChoice({ metric: metric.value }));
    for (const radio of axes)
      radio.addEventListener("change", () => onChoice({ axis: radio.value }));
    scale.addEventListener("change", () => onChoice({ isLog: scale.checked }));
  }

  /**
   * Show runs.
   * @param {{ comparison: object, manifests: object[] }} found
   * @param {import("./view.js").View} view
   */
  async show(found, view) {
    const drawing = ++this.#drawing;
    const { results } = found.comparison;
    const first = [...goalMetrics(results), view.metric];
    this.legend.show(results);
    this.#showChoice(view, first);
    const offering = this.loader.metrics(found.manifests).then((metrics) => {
      if (drawing === this.#drawing) this.#showChoice(view, [...first, ...metrics]);
    });
    // What is known to be recorded is drawn before it is known what else there is.
    if (!this.parts.metric.value) await offering;
    const metric = this.parts.metric.value;
    const { axis, columns } = await this.#columnsOn(found, metric, view.axis);
    if (drawing !== this.#drawing) return;
    this.shown = { results, columns, metric, axis, isLog: view.isLog && !isPercent(metric) };
    await Promise.all([offering, this.#draw()]);
  }

  /** Say what went wrong, beside what is shown already. */
  fail(/** @type {Error} */ error) {
    setText(this.parts.note, error.message);
  }

  #showChoice(view, metrics) {
    const names = [...new Set(metrics)].filter(Boolean);
    const { metric, axes, scale, scaleChoice } = this.parts;
    keep(
      metric,
      names,
      (name) => name,
      (name) => h("option", { value: name }, name),
      () => {},
    );
    metric.value = view.metric || (names[0] ?? "");
    metric.disabled = names.length === 0;
    for (const radio of axes) radio.checked = radio.value === (view.axis || this.shown?.axis);
    scale.checked = view.isLog;
    scaleChoice.hidden = isPercent(metric.value);
  }

  // Without a choice, the first axis that the runs have recorded.
  async #columnsOn(found, metric, chosen) {
    for (const axis of chosen ? [chosen] : AXES) {
      const columns = await this.#columns(found, metric, axis);
      if (chosen || columns.some(({ x }) => x.length)) return { axis, columns };
    }
    return { axis: AXES[0], columns: found.comparison.results.map(() => ({ x: [], y: [] })) };
  }

  #columns({ comparison, manifests }, metric, axis) {
    return Promise.all(
      comparison.results.map(async (result, i) => {
        if (!metric) return { x: [], y: [] };
        if (isInResult(result, metric, axis)) return ofResult(result, axis);
        const recorded = await this.loader.recorded(manifests[i], metric, axis);
        return ofRecorded(recorded, metric, axis, manifests[i].started_at);
      }),
    );
  }

  async #draw() {
    const { results, columns, metric, axis, isLog } = this.shown;
    for (const radio of this.parts.axes) radio.checked = radio.value === axis;
    const without = results.filter((_, i) => columns[i].x.length === 0).map((one) => one.run_id);
    const isEmpty = without.length === results.length;
    setText(this.parts.note, noteOn(without, isEmpty, metric));
    this.parts.chart.hidden = isEmpty;
    if (isEmpty) return;
    await this.chart.draw(toLines(results, columns, this.legend.hidden), {
      x: TITLES[axis],
      y: metric,
      yType: isLog ? "log" : "linear",
      ySuffix: isPercent(metric) ? " %" : "",
      marks: toMarks(results, metric),
      hasLegend: false,
    });
  }
}

function noteOn(without, isEmpty, metric) {
  if (!metric) return "Nothing is recorded yet.";
  if (isEmpty) return `None of these runs has values of ${metric} on this axis.`;
  return without.length ? `Without values on this axis: ${runs(without)}.` : "";
}

function runs(ids) {
  return `${ids.length > 1 ? "runs" : "run"} ${ids.join(", ")}`;
}
