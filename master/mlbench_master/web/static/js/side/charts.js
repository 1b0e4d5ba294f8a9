// The tab "Charts": metrics of all runs, the time to target, and the verdict in a sentence.

import { showBars } from "../bars.js";
import { Chart } from "../chart.js";
import { offerCharts } from "../charts.js";
import { toGroupLines } from "../compare/groups.js";
import { toBars } from "../compare/times.js";
import { headlineOf, versionsOf } from "../compare/verdict.js";
import { h, reconcile, setText } from "../dom.js";
import { isPercent, metric as formatMetric, metricTitle, percent, plural, spans } from "../format.js";
import { Look } from "../look.js";
import { labelOf, LOSSES } from "../records.js";
import { unitOf } from "../run/curves.js";
import { AXES, columnsOf } from "./columns.js";
import { makePart, moreMenu } from "./tools.js";

/**
 * @import { Result } from "../records.js"
 * @import { Found, Loader } from "../compare/loader.js"
 * @import { Columns } from "./columns.js"
 * @import { ShownRun, View } from "./side.js"
 * @typedef {{ metric: string, axis: string, columns: Columns[] | null }} Drawn
 */

// A curve of fewer points shows each of them.
const FEW_POINTS = 40;
// The bands of more curves would cover each other.
const MAX_BANDS = 4;
const MAX_BARS = 12;
const IN_WORDS = { training: "training time", wall: "wall-clock time", step: "steps", epoch: "epochs" };

export class Charts {
  /** @type {Map<string, { part: HTMLElement, chart: Chart, note: HTMLElement, none: HTMLElement }>} */
  #byMetric = new Map();
  /** @type {Drawn[]} */
  #drawn = [];
  /** @type {ShownRun[]} */
  #runs = [];
  /** @type {Found | null} */
  #found = null;
  #drawing = 0;
  #charts = h("div", { class: "side-charts" });
  #bars = h("div");
  /** The runs of each bar. @type {number[][]} */
  #barKeys = [];
  #barsNote = h("span", { class: "side-note" });
  #barsPart = makePart("Time to target", [this.#barsNote], this.#bars);
  #card = h("section", { class: "card headline", "aria-label": "Verdict" });
  #more = h("select", { "aria-label": "Add a chart" });
  #ofGroups = h("input", { type: "checkbox" });
  #axes = Object.keys(AXES).map((value) => h("input", { type: "radio", name: "axis", value }));

  /**
   * @param {HTMLElement} place
   * @param {Loader} loader
   * @param {{ onView: (part: Partial<View>) => void, onHover: (keys: number[]) => void, onVerdict: () => void }} actions
   */
  constructor(place, loader, actions) {
    this.loader = loader;
    this.actions = actions;
    place.classList.add("side-grid");
    place.append(this.#charts, h("div", { class: "side-summary" }, this.#barsPart, this.#card));
    this.#more.addEventListener("change", () => actions.onView({ metrics: [...this.#drawn.map(({ metric }) => metric), this.#more.value] }));
    this.#ofGroups.addEventListener("change", () => actions.onView({ ofGroups: this.#ofGroups.checked }));
    for (const radio of this.#axes) radio.addEventListener("change", () => actions.onView({ axis: radio.value }));
    this.#bars.addEventListener("pointerover", (event) => {
      const row = /** @type {Element} */ (event.target).closest(".bar-row");
      actions.onHover(row ? (this.#barKeys[[...this.#bars.children].indexOf(row)] ?? []) : []);
    });
    this.#bars.addEventListener("pointerleave", () => actions.onHover([]));
  }

  /** @returns {HTMLElement[]} the controls of all charts, to be put into the page before `start`. */
  controls() {
    const radios = this.#axes.map((radio) => h("label", { class: "check" }, radio, AXES[radio.value]));
    const range = h("input", { type: "range", id: "smoothing", min: 0, max: 10, step: 0.1, value: 0, title: "Smoothing half-life (share of the axis)" });
    const axes = h(
      "details",
      { class: "side-axes menu" },
      h("summary", { class: "button" }, "Axes"),
      h(
        "div",
        { class: "menu-items stack" },
        h("fieldset", {}, h("legend", { class: "soft" }, "Horizontal axis"), radios),
        h("div", { class: "check" }, h("label", { for: "smoothing" }, "Smoothing"), range, h("output", { for: "smoothing", id: "smoothing-shown", class: "soft" })),
        h("label", { class: "check" }, h("input", { type: "checkbox", id: "log-x" }), "Logarithmic, horizontal"),
        h("label", { class: "check" }, h("input", { type: "checkbox", id: "log-y" }), "Logarithmic, vertical"),
        h("label", { class: "check", title: "Mean of each group's runs with a 95 % confidence band (Student's t), and each run in a pale color" }, this.#ofGroups, "Means of groups"),
      ),
    );
    return [this.#more, axes];
  }

  /** Follow the controls, which the page has. */
  start() {
    this.look = new Look(() => this.#draw());
  }

  /** Fetch and draw the charts of a view. */
  async show(/** @type {Found} */ found, /** @type {ShownRun[]} */ runs, /** @type {View} */ view) {
    const drawing = ++this.#drawing;
    this.#found = found;
    this.#runs = runs;
    this.view = view;
    this.#showSummary();
    const targets = found.comparison.results.map((result) => result.target?.metric).filter(Boolean);
    const offered = await this.loader.metrics(found.manifests);
    if (drawing !== this.#drawing) return;
    const metrics = view.metrics.length ? view.metrics : defaultsOf(targets, offered);
    const others = [...new Set([...targets, ...offered])].filter((metric) => !metrics.includes(metric));
    offerCharts(/** @type {HTMLSelectElement} */ (this.#more), others);
    const drawn = await Promise.all(metrics.map((metric) => this.#fetch(metric)));
    if (drawing !== this.#drawing) return;
    this.#drawn = drawn;
    this.#draw();
  }

  /** Draw the same runs again, with other styles, or others of them hidden. */
  restyle(/** @type {ShownRun[]} */ runs) {
    this.#runs = runs;
    if (!this.#found) return;
    this.#showSummary();
    this.#draw();
  }

  highlight(/** @type {number[]} */ ids) {
    for (const { chart } of this.#byMetric.values()) chart.highlight(ids);
    [...this.#bars.children].forEach((row, i) => {
      row.classList.toggle("lit", (this.#barKeys[i] ?? []).some((id) => ids.includes(id)));
    });
  }

  // Without a choice, the first axis that the runs have recorded.
  async #fetch(/** @type {string} */ metric) {
    const tried = this.view.axis ? [this.view.axis] : Object.keys(AXES);
    try {
      for (const axis of tried) {
        const columns = await columnsOf(this.loader, this.#found, metric, axis);
        if (columns.some(({ x }) => x.length)) return { metric, axis, columns };
      }
      return { metric, axis: tried[0], columns: this.#found.manifests.map(() => ({ x: [], y: [] })) };
    } catch (error) {
      if (error.isPassing) throw error;
      return { metric, axis: tried[0], columns: null };
    }
  }

  #showSummary() {
    const { comparison } = this.#found;
    const visible = this.#visible();
    const { bars, keys, note } = toBars(comparison, visible, (id) => this.#styleOf(id));
    this.#barsPart.hidden = bars.length === 0;
    this.#barKeys = keys.slice(0, MAX_BARS);
    if (bars.length) showBars(this.#bars, bars.slice(0, MAX_BARS));
    setText(this.#barsNote, bars.length > MAX_BARS ? `${MAX_BARS} fastest of ${bars.length}` : note);
    const { state, badge, title, detail, others } = headlineOf(comparison);
    const more = others > 0 ? ` · ${plural(others, "more comparison")}` : "";
    const button = h("button", { type: "button", class: "quiet link", onclick: () => this.actions.onVerdict() }, `What differs${more} ›`);
    this.#card.hidden = comparison.results.length < 2;
    this.#card.replaceChildren(
      h("p", { class: "headline-title" }, badge && h("span", { class: "badge", "data-answer": state }, badge), h("b", {}, h("bdi", {}, title))),
      h("p", { class: "soft" }, detail),
      button,
    );
  }

  #visible() {
    return this.#runs.filter(({ hidden }) => !hidden).map(({ run }) => run.id);
  }

  #styleOf(/** @type {number} */ id) {
    const shown = this.#runs.find(({ run }) => run.id === id);
    return { colour: shown?.colour ?? "--soft", dash: shown?.dash ?? /** @type {const} */ ("solid") };
  }

  #draw() {
    const [first] = this.#drawn;
    if (!first) return;
    for (const radio of this.#axes) /** @type {HTMLInputElement} */ (radio).checked = /** @type {HTMLInputElement} */ (radio).value === first.axis;
    const hasGroups = this.#found.comparison.groups.some((group) => group.run_ids.length > 1);
    this.#ofGroups.parentElement.hidden = !hasGroups;
    /** @type {HTMLInputElement} */ (this.#ofGroups).checked = this.view.ofGroups;
    reconcile(this.#charts, this.#drawn, ({ metric }) => metric, ({ metric }) => this.#make(metric));
    for (const metric of this.#byMetric.keys())
      if (!this.#drawn.some((drawn) => drawn.metric === metric)) this.#byMetric.delete(metric);
    for (const drawn of this.#drawn) this.#drawOne(drawn, hasGroups && this.view.ofGroups);
  }

  #make(/** @type {string} */ metric) {
    const [place, note, none] = [h("div"), h("span", { class: "side-note" }), h("p", { class: "soft" })];
    const chart = new Chart(place, metricTitle(metric), { hasLegend: false, hasFiles: false });
    chart.onHover = (keys) => this.actions.onHover(keys);
    const remove = () => this.actions.onView({ metrics: this.#drawn.map((drawn) => drawn.metric).filter((other) => other !== metric) });
    const part = makePart(metricTitle(metric), [note, moreMenu(metricTitle(metric), [...chart.exports, ["Remove chart", remove]])], none, place);
    part.querySelector("h2").title = metric;
    this.#byMetric.set(metric, { part, chart, note, none });
    return part;
  }

  #drawOne(/** @type {Drawn} */ { metric, axis, columns }, /** @type {boolean} */ isGrouped) {
    const { part, chart, note, none } = this.#byMetric.get(metric);
    const { results, groups } = this.#found.comparison;
    const visible = new Set(this.#visible());
    const shown = results.map((result, i) => ({ result, column: columns?.[i] })).filter(({ result, column }) => visible.has(result.run_id) && column?.x.length);
    const longest = Math.max(0, ...(columns ?? []).map(({ x }) => x.at(-1) ?? 0));
    const { seconds, name } = axis in { training: 1, wall: 1 } ? unitOf(longest) : { seconds: 1, name: "" };
    const scaled = shown.map(({ column }) => ({ ...column, x: column.x.map((at) => at / seconds) }));
    setText(none, columns ? `No values of ${metric} over ${IN_WORDS[axis]}.` : "Not known: the samples could not be loaded.");
    none.hidden = shown.length > 0;
    chart.element.hidden = shown.length === 0;
    part.classList.toggle("is-empty", shown.length === 0);
    const look = this.look.axes([metric]);
    setText(note, noteOf(axis, shown.length, results.length, look, isGrouped));
    if (!shown.length) return;
    const kept = shown.map(({ result }) => result);
    const lines = isGrouped
      ? toGroupLines(groups, kept, scaled, look, (id) => this.#styleOf(id)).map((line) => (isPercent(metric) ? bounded(line) : line))
      : toLines(kept, scaled, (id) => this.#styleOf(id));
    chart.caption = this.#captionOf(kept);
    chart.draw(lines, {
      x: name ? `${AXES[axis]} (${name})` : AXES[axis],
      y: metricTitle(metric),
      xSuffix: { seconds: " s", minutes: " min", hours: " h", days: " d" }[name] ?? "",
      isBare: true,
      shared: { axis, unit: seconds },
      ...look,
      ySuffix: isPercent(metric) ? " %" : "",
      marks: toMarks(kept, metric),
      ...(isGrouped && { smoothing: 0 }), // Their runs are smoothed.
    });
  }

  #captionOf(/** @type {Result[]} */ results) {
    const ids = results.map(({ run_id }) => run_id);
    return captionOf(results, this.#found.manifests.filter(({ run_id }) => ids.includes(run_id)));
  }
}

/** @returns {string} the caption of a figure: runs, seeds, version, and CPU contention */
export function captionOf(/** @type {Result[]} */ results, /** @type {import("../records.js").Manifest[]} */ manifests) {
  const numbers = (/** @type {(number | null)[]} */ values) => spans([...new Set(values.filter((value) => value !== null))].sort((a, b) => a - b));
  const seeds = numbers(manifests.map(({ seed }) => seed));
  const shares = results.map(({ contention_share: share }) => share).filter((share) => share !== null);
  const parts = [
    `${results.length === 1 ? "Run" : "Runs"} ${numbers(results.map(({ run_id }) => run_id))}`,
    seeds && `${/[,–]/.test(seeds) ? "seeds" : "seed"} ${seeds}`,
    versionsOf(manifests),
    shares.length && `CPU contention up to ${percent(Math.max(...shares))}`,
  ];
  return `${parts.filter(Boolean).join("; ")}.`;
}

/** @returns {string[]} the metrics that are drawn by default: that of the target, and the training loss */
export function defaultsOf(/** @type {string[]} */ targets, /** @type {string[]} */ offered) {
  const counts = new Map();
  for (const target of targets) counts.set(target, (counts.get(target) ?? 0) + 1);
  const [main] = [...counts].sort(([, a], [, b]) => b - a).map(([metric]) => metric);
  const loss = LOSSES.find((name) => offered.includes(name) && name !== main);
  const metrics = [main ?? offered.find((name) => metricTitle(name).toLowerCase().includes("accuracy")), loss].filter(Boolean);
  return metrics.length ? metrics : offered.slice(0, 1);
}

function noteOf(/** @type {string} */ axis, /** @type {number} */ shown, /** @type {number} */ all, look, isGrouped) {
  const parts = [
    `over ${IN_WORDS[axis]}`,
    look.smoothing > 0 && "smoothed",
    look.yType === "log" && "log y",
    isGrouped ? "means of groups" : shown < all ? `${shown} of ${all} shown` : `${shown} shown`,
  ];
  return parts.filter(Boolean).join(" · ");
}

/** @returns {import("../plot.js").Line[]} one per result. */
export function toLines(/** @type {Result[]} */ results, /** @type {Columns[]} */ columns, /** @type {(id: number) => object} */ styleOf) {
  const hasBands = columns.length <= MAX_BANDS;
  return results.map((result, i) => {
    const { x, y, lows, highs } = columns[i];
    const line = { name: labelOf(result), keys: [result.run_id], x, y, ...styleOf(result.run_id), points: x.length < FEW_POINTS };
    return hasBands ? { ...line, lows, highs } : line;
  });
}

// An accuracy is from 0 to 100 %, whatever the interval of its mean.
function bounded(/** @type {import("../plot.js").Line} */ line) {
  return { ...line, lows: line.lows.map((low) => Math.max(0, low)), highs: line.highs.map((high) => Math.min(100, high)) };
}

/** @returns {{ y: number, text: string }[]} the targets that are values of a metric. */
export function toMarks(/** @type {Result[]} */ results, /** @type {string} */ metric) {
  const targets = results.map((result) => result.target).filter((target) => target?.metric === metric);
  const values = [...new Set(targets.map((target) => target.value))];
  return values.map((y) => ({ y, text: `target ${formatMetric(metric, y)}` }));
}

