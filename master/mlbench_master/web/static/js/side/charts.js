// The tab "Charts": metrics of all runs, the time to target, and the verdict in a sentence.

import { showBars } from "../bars.js";
import { Chart } from "../chart.js";
import { offerCharts } from "../charts.js";
import { AXES, captionOf, defaultsOf, drawCurves } from "../compare/curves.js";
import { addMenu } from "../compare/menus.js";
import { toBars } from "../compare/results.js";
import { showHeadline } from "../compare/verdict.js";
import { byId, getParam, getParams, h, reconcile, setNotice, setParams, setText } from "../dom.js";
import { metricTitle } from "../format.js";
import { Look } from "../look.js";

/**
 * @import { Columns, Found, Loader } from "../compare/loader.js"
 * @import { ShownRun } from "./side.js"
 *
 * A metric over an axis, with a curve of each run; null if the samples could not be loaded.
 * @typedef {{ metric: string, axis: string, columns: Columns[] | null }} Drawn
 */

const MAX_BARS = 12;

export class Charts {
  /** @type {Map<string, Chart>} by metric */
  #charts = new Map();
  /** @type {Drawn[]} */
  #drawn = [];
  /** @type {ShownRun[]} */
  #runs = [];
  /** @type {Found | null} */
  #found = null;
  #drawing = 0;
  #look = new Look(() => this.#draw());

  /**
   * @param {Loader} loader
   * @param {() => void} onChange called when the address asks for other data
   * @param {(ids: number[]) => void} onHover called with the runs under the cursor
   */
  constructor(loader, onChange, onHover) {
    this.loader = loader;
    this.onHover = onHover;
    this.change = (/** @type {Record<string, string | string[]>} */ params) => {
      setParams(params);
      onChange();
    };
    byId("more-charts").addEventListener("change", ({ target }) => this.change({ metric: [...this.#metrics(), target.value] }));
    byId("axis").addEventListener("change", ({ target }) => this.change({ axis: target.value }));
    byId("of-groups").addEventListener("change", ({ target }) => this.change({ curves: target.checked ? "groups" : "" }));
    byId("times").addEventListener("pointerover", ({ target }) => onHover(target.closest(".bar-row")?.dataset.runs.split(" ").map(Number) ?? []));
    byId("times").addEventListener("pointerleave", () => onHover([]));
  }

  /** Fetch and draw the charts that the address asks for; by default, those of the target and the loss. */
  async show(/** @type {Found} */ found, /** @type {ShownRun[]} */ runs) {
    const drawing = ++this.#drawing;
    [this.#found, this.#runs] = [found, runs];
    const { comparison, manifests } = found;
    const { bars, note } = toBars(comparison, this.#visible, (id) => this.#styleOf(id));
    byId("times-part").hidden = !bars.length;
    if (bars.length) showBars(byId("times"), bars.slice(0, MAX_BARS));
    setText(byId("times-note"), bars.length > MAX_BARS ? `${MAX_BARS} fastest of ${bars.length}` : note);
    byId("headline-card").hidden = comparison.results.length < 2;
    showHeadline(byId("headline"), comparison);
    const targets = comparison.results.map((result) => result.target?.metric).filter(Boolean);
    const offered = await this.loader.metrics(manifests);
    const asked = getParams("metric").filter(Boolean);
    const metrics = asked.length ? asked : defaultsOf(targets, offered);
    const drawn = await Promise.all(metrics.map((metric) => this.#fetch(metric)));
    if (drawing !== this.#drawing) return;
    offerCharts(byId("more-charts"), [...new Set([...targets, ...offered])].filter((metric) => !metrics.includes(metric)));
    this.#drawn = drawn;
    this.#draw();
  }

  /** Show these runs strongly, and the others pale. */
  highlight(/** @type {number[]} */ ids) {
    for (const chart of this.#charts.values()) chart.highlight(ids);
  }

  #metrics() {
    return this.#drawn.map(({ metric }) => metric);
  }

  /** @returns {Promise<Drawn>} over the chosen axis, or else the first that the runs have recorded. */
  async #fetch(/** @type {string} */ metric) {
    const chosen = getParam("axis");
    const axes = chosen in AXES ? [chosen] : Object.keys(AXES);
    try {
      for (const axis of axes) {
        const columns = await this.loader.columns(this.#found, metric, axis);
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
    const canGroup = this.#found.comparison.groups.some((group) => group.run_ids.length > 1);
    byId("of-groups").parentElement.hidden = !canGroup;
    byId("of-groups").checked = canGroup && getParam("curves") === "groups";
    reconcile(byId("metric-charts"), this.#drawn, ({ metric }) => metric, ({ metric }) => this.#make(metric), (part, drawn) => this.#drawOne(part, drawn));
  }

  #make(/** @type {string} */ metric) {
    const title = metricTitle(metric);
    const place = h("div");
    const head = h("div", { class: "side-head" }, h("h2", { title: metric }, title), h("span", { class: "side-note" }));
    const part = h("section", { class: "side-part", "aria-label": title }, head, h("p", { class: "soft" }), place);
    const chart = new Chart(place, title, { hasLegend: false, hasFiles: false });
    chart.onHover = this.onHover;
    const remove = () => this.change({ metric: this.#metrics().filter((other) => other !== metric) });
    addMenu(head, title, [...chart.exports, ["Remove chart", remove]]);
    this.#charts.set(metric, chart);
    return part;
  }

  #drawOne(/** @type {HTMLElement} */ part, /** @type {Drawn} */ { metric, axis, columns }) {
    const chart = this.#charts.get(metric);
    const { comparison, manifests } = this.#found;
    const visible = this.#visible;
    const shown = comparison.results.map((result, i) => ({ result, column: columns?.[i] })).filter(({ result, column }) => column?.x.length && visible.includes(result.run_id));
    const over = AXES[axis].toLowerCase();
    const missing = columns ? `No values of ${metric} over ${over}.` : "Not known: the samples could not be loaded.";
    setNotice(part.querySelector("p"), shown.length ? "" : missing);
    chart.element.hidden = !shown.length;
    part.classList.toggle("is-empty", !shown.length);
    const isGrouped = byId("of-groups").checked;
    const all = comparison.results.length;
    const which = isGrouped ? "means of groups" : `${shown.length < all ? `${shown.length} of ${all}` : all} shown`;
    setText(part.querySelector(".side-note"), `over ${over} · ${which}`);
    if (!shown.length) return;
    const results = shown.map(({ result }) => result);
    const ids = results.map(({ run_id }) => run_id);
    chart.caption = captionOf(results, manifests.filter(({ run_id }) => ids.includes(run_id)));
    const data = { metric, axis, results, columns: shown.map(({ column }) => column) };
    drawCurves(chart, data, isGrouped ? comparison.groups : null, (id) => this.#styleOf(id), this.#look.axes([metric]));
  }
}
