// The tab "Charts": metrics of all runs, the time to target, and the verdict in a sentence.

import { showBars } from "../bars.js";
import { Chart } from "../chart.js";
import { offerCharts } from "../charts.js";
import { AXES, captionOf, defaultsOf, drawCurves } from "../compare/curves.js";
import { addMenu } from "../compare/menus.js";
import { toBars } from "../compare/results.js";
import { headlineOf, showHeadline } from "../compare/verdict.js";
import { byId, getParam, getParams, h, reconcile, setNotice, setParams, setText } from "../dom.js";
import { metricTitle, plural } from "../format.js";
import { Look } from "../look.js";

/**
 * @import { Columns, Found, Loader } from "../compare/loader.js"
 * @import { ShownRun } from "./side.js"
 * @typedef {{ metric: string, axis: string, columns: Columns[] | null }} Drawn
 */

const MAX_BARS = 12;
const IN_WORDS = { training: "training time", wall: "wall-clock time", step: "steps", epoch: "epochs" };

export class Charts {
  /** @type {Map<string, { chart: Chart, note: HTMLElement, none: HTMLElement }>} */
  #byMetric = new Map();
  /** @type {Drawn[]} */
  #drawn = [];
  /** @type {ShownRun[]} */
  #runs = [];
  /** @type {Found | null} */
  #found = null;
  #drawing = 0;
  /** @type {number[][]} the runs of each bar */
  #barKeys = [];
  #look = new Look(() => this.#draw());

  /**
   * @param {Loader} loader
   * @param {() => void} onChange called when the address asks for other data
   * @param {(ids: number[]) => void} onHover called with the runs under the cursor
   */
  constructor(loader, onChange, onHover) {
    this.loader = loader;
    this.onChange = onChange;
    this.onHover = onHover;
    byId("more-charts").addEventListener("change", ({ target }) => this.#change({ metric: [...this.#metrics(), target.value] }));
    byId("axis").addEventListener("change", ({ target }) => this.#change({ axis: target.value }));
    byId("of-groups").addEventListener("change", ({ target }) => this.#change({ curves: target.checked ? "groups" : "" }));
    byId("times").addEventListener("pointerover", ({ target }) => onHover(this.#barKeys[[...byId("times").children].indexOf(target.closest(".bar-row"))] ?? []));
    byId("times").addEventListener("pointerleave", () => onHover([]));
  }

  /** Fetch and draw the charts that the address asks for; by default, those of the target and the loss. */
  async show(/** @type {Found} */ found, /** @type {ShownRun[]} */ runs) {
    const drawing = ++this.#drawing;
    [this.#found, this.#runs] = [found, runs];
    this.#showSummary();
    const targets = found.comparison.results.map((result) => result.target?.metric).filter(Boolean);
    const offered = await this.loader.metrics(found.manifests);
    const asked = getParams("metric").filter(Boolean);
    const metrics = asked.length ? asked : defaultsOf(targets, offered);
    const drawn = await Promise.all(metrics.map((metric) => this.#fetch(found, metric)));
    if (drawing !== this.#drawing) return;
    offerCharts(byId("more-charts"), [...new Set([...targets, ...offered])].filter((metric) => !metrics.includes(metric)));
    this.#drawn = drawn;
    this.#draw();
  }

  /** Draw the same runs with other styles, or others of them hidden. */
  restyle(/** @type {ShownRun[]} */ runs) {
    this.#runs = runs;
    this.#showSummary();
    this.#draw();
  }

  #showSummary() {
    const { comparison } = this.#found;
    const { bars, keys, note } = toBars(comparison, this.#visible, (id) => this.#styleOf(id));
    this.#barKeys = keys;
    byId("times-part").hidden = !bars.length;
    if (bars.length) showBars(byId("times"), bars.slice(0, MAX_BARS));
    setText(byId("times-note"), bars.length > MAX_BARS ? `${MAX_BARS} fastest of ${bars.length}` : note);
    byId("headline-card").hidden = comparison.results.length < 2;
    showHeadline(byId("headline"), comparison);
    const { others } = headlineOf(comparison);
    setText(byId("what-differs"), `What differs${others > 0 ? ` · ${plural(others, "more comparison")}` : ""} ›`);
  }

  /** Show these runs strongly, and the others pale. */
  highlight(/** @type {number[]} */ ids) {
    for (const { chart } of this.#byMetric.values()) chart.highlight(ids);
    [...byId("times").children].forEach((row, i) => row.classList.toggle("lit", ids.some((id) => this.#barKeys[i]?.includes(id))));
  }

  #change(/** @type {Record<string, string | string[]>} */ params) {
    setParams(params);
    this.onChange();
  }

  #metrics() {
    return this.#drawn.map(({ metric }) => metric);
  }

  /** @returns {Promise<Drawn>} over the chosen axis, or else the first that the runs have recorded. */
  async #fetch(/** @type {Found} */ found, /** @type {string} */ metric) {
    const chosen = getParam("axis");
    const axes = chosen in AXES ? [chosen] : Object.keys(AXES);
    try {
      for (const axis of axes) {
        const columns = await this.loader.columns(found, metric, axis);
        if (columns.some(({ x }) => x.length)) return { metric, axis, columns };
      }
      return { metric, axis: axes[0], columns: [] };
    } catch (error) {
      if (error.isPassing) throw error;
      return { metric, axis: axes[0], columns: null };
    }
  }

  get #visible() {
    return this.#runs.filter(({ hidden }) => !hidden).map(({ run }) => run.id);
  }

  #styleOf(/** @type {number} */ id) {
    const { colour = "--soft", dash = /** @type {const} */ ("solid") } = this.#runs.find(({ run }) => run.id === id) ?? {};
    return { colour, dash };
  }

  #draw() {
    if (!this.#drawn.length) return;
    for (const radio of byId("axis").querySelectorAll("input")) radio.checked = radio.value === this.#drawn[0].axis;
    byId("of-groups").parentElement.hidden = !this.#found.comparison.groups.some((group) => group.run_ids.length > 1);
    byId("of-groups").checked = getParam("curves") === "groups";
    reconcile(byId("metric-charts"), this.#drawn, ({ metric }) => metric, ({ metric }) => this.#make(metric), (part, drawn) => this.#drawOne(part, drawn));
  }

  #make(/** @type {string} */ metric) {
    const title = metricTitle(metric);
    const [place, note, none] = [h("div"), h("span", { class: "side-note" }), h("p", { class: "soft" })];
    const head = h("div", { class: "side-head" }, h("h2", { title: metric }, title), note);
    const part = h("section", { class: "side-part", "aria-label": title }, head, none, place);
    const chart = new Chart(place, title, { hasLegend: false, hasFiles: false });
    chart.onHover = this.onHover;
    const remove = () => this.#change({ metric: this.#metrics().filter((other) => other !== metric) });
    addMenu(head, title, [...chart.exports, ["Remove chart", remove]]);
    this.#byMetric.set(metric, { chart, note, none });
    return part;
  }

  #drawOne(/** @type {HTMLElement} */ part, /** @type {Drawn} */ { metric, axis, columns }) {
    const { chart, note, none } = this.#byMetric.get(metric);
    const { comparison, manifests } = this.#found;
    const visible = this.#visible;
    const shown = comparison.results.map((result, i) => ({ result, column: columns?.[i] })).filter(({ result, column }) => column?.x.length && visible.includes(result.run_id));
    const missing = columns ? `No values of ${metric} over ${IN_WORDS[axis]}.` : "Not known: the samples could not be loaded.";
    setNotice(none, shown.length ? "" : missing);
    chart.element.hidden = !shown.length;
    part.classList.toggle("is-empty", !shown.length);
    const look = this.#look.axes([metric]);
    const isGrouped = byId("of-groups").checked && !byId("of-groups").parentElement.hidden;
    const all = comparison.results.length;
    const parts = [
      `over ${IN_WORDS[axis]}`,
      look.smoothing > 0 && "smoothed",
      look.yType === "log" && "log y",
      isGrouped ? "means of groups" : `${shown.length < all ? `${shown.length} of ${all}` : all} shown`,
    ];
    setText(note, parts.filter(Boolean).join(" · "));
    if (!shown.length) return;
    const results = shown.map(({ result }) => result);
    const ids = results.map(({ run_id }) => run_id);
    chart.caption = captionOf(results, manifests.filter(({ run_id }) => ids.includes(run_id)));
    const data = { metric, axis, results, columns: shown.map(({ column }) => column) };
    drawCurves(chart, data, isGrouped ? comparison.groups : null, (id) => this.#styleOf(id), look);
  }
}
