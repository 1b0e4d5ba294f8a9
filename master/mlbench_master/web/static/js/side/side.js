// The charts and the verdict next to a list of runs: templates/_side.html.

import { ApiError } from "../api.js";
import { showBars } from "../bars.js";
import { Chart } from "../chart.js";
import { AXES, captionOf, defaultsOf, drawCurves } from "../compare/curves.js";
import { Loader, hasEnded, toPath } from "../compare/loader.js";
import { toBars } from "../compare/results.js";
import { showHeadline } from "../compare/verdict.js";
import { byId, getParam, getParams, h, reconcile, setNotice, setParams, setText } from "../dom.js";
import { addMenu } from "../export.js";
import { metricTitle, plural } from "../format.js";
import { Look, offerCharts } from "../look.js";
import { poll } from "../poll.js";
import { connectTabs, errorState } from "../ui.js";
import { Verdict } from "./verdict.js";

/**
 * @import { Columns, Found } from "../compare/loader.js"
 *
 * A run of the list, with its style; a hidden one has no curve.
 * @typedef {{ run: Run, colour: string, dash: "solid" | "dash" | "dot", hidden: boolean }} ShownRun
 *
 * A metric over an axis, with a curve of each run; null if the samples could not be loaded.
 * @typedef {{ metric: string, axis: string, columns: Columns[] | null }} Drawn
 */

const POLL_MS = 5000;
const MAX_BARS = 12;

export class Side {
  /** Called with each comparison that is shown; null when there is none. */
  onFound = (/** @type {Found | null} */ _found) => {};
  /** @type {ShownRun[]} */
  #runs = [];
  #isChosen = false;
  /** @type {Found | null} */
  #found = null;
  #loader = new Loader();
  #verdict = new Verdict();
  #look = new Look(() => this.#drawCharts());
  /** @type {ReturnType<typeof poll> | null} */
  #poller = null;
  /** @type {Drawn[]} */
  #drawn = [];
  #drawing = 0;
  /** @type {number[]} the runs that are shown strongly */
  #lit = [];
  /** @type {Map<string, Chart>} by metric */
  #charts = new Map();

  constructor() {
    connectTabs(byId("tabs"));
    byId("what-differs").addEventListener("click", () => byId("verdict-tab").click());
    byId("more-charts").addEventListener("change", ({ target }) => this.#change({ metric: [...this.#metrics, target.value] }));
    byId("axis").addEventListener("change", ({ target }) => this.#change({ axis: target.value }));
    byId("of-groups").addEventListener("change", ({ target }) => this.#change({ curves: target.checked ? "groups" : "" }));
    byId("times").addEventListener("pointerover", ({ target }) => {
      this.highlight(target.closest(".bar-row")?.dataset.runs.split(" ").map(Number) ?? []);
    });
    byId("times").addEventListener("pointerleave", () => this.highlight([]));
  }

  /** Show these runs, which a user chose or not. What no longer changes is fetched once. */
  show(/** @type {ShownRun[]} */ runs, isChosen = true) {
    const before = this.#key();
    this.#runs = runs;
    this.#isChosen = isChosen;
    if (this.#found && before === this.#key()) this.#redraw();
    else if (this.#poller) this.#poller.now();
    else this.#poller = poll(() => this.#refresh(), (error) => this.#fail(error));
  }

  /** Show these runs strongly, in charts and in rows with `data-runs`; without ids, show all alike. */
  highlight(/** @type {number[]} */ ids) {
    this.#lit = ids;
    for (const chart of this.#charts.values()) chart.highlight(ids);
    for (const row of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-runs]")))
      row.classList.toggle("lit", row.dataset.runs.split(" ").some((id) => ids.includes(Number(id))));
  }

  /** Compare by another target than the runs' own, or group `by` fewer settings; empty: by those of the runs. */
  setCriteria(/** @type {{ target?: string, by?: string }} */ criteria) {
    setParams(criteria);
    this.#poller?.now();
  }

  #key() {
    return toPath(this.#runs.map(({ run }) => run.id));
  }

  get #metrics() {
    return this.#drawn.map(({ metric }) => metric);
  }

  #change(/** @type {Record<string, string | string[]>} */ params) {
    setParams(params);
    this.#redraw();
  }

  async #refresh() {
    const key = this.#key();
    if (!this.#runs.length) {
      this.#say(null, "Select runs to see their curves and what they differ in.");
      return null;
    }
    if (!this.#found) this.#say(null, "Loading…");
    const found = await this.#loader.compare(new Map(this.#runs.map(({ run }) => [run.id, run.title])));
    if (key !== this.#key()) return null; // The selection changed, and the poll turns again.
    this.#say(found, found ? "" : "The runs were not found. They may have been deleted.");
    if (!found) return null;
    await this.#draw();
    return found.manifests.every(hasEnded) ? null : POLL_MS;
  }

  #redraw() {
    if (this.#found) this.#draw().catch((error) => this.#fail(error));
  }

  #fail(/** @type {Error} */ error) {
    this.#say(null, " ");
    const isOfTarget = error instanceof ApiError && error.status === 400;
    byId("side-message").replaceChildren(errorState(error, () => (isOfTarget ? this.setCriteria({ target: "", by: "" }) : this.#poller.now())));
  }

  #say(/** @type {Found | null} */ found, /** @type {string} */ text) {
    this.#found = found;
    setNotice(byId("side-message"), text);
    for (const panel of ["charts-panel", "verdict-panel"]) byId(panel).classList.toggle("is-empty", !found);
    this.onFound(found);
  }

  // Draw both tabs, with the charts that the address asks for; by default, those of the target and the loss.
  async #draw() {
    const drawing = ++this.#drawing;
    const found = this.#found;
    const { comparison, manifests } = found;
    this.#verdict.show(found, this.#runs);
    const { bars, note } = toBars(comparison, this.#visible, (id) => this.#styleOf(id));
    byId("times-part").hidden = !bars.length;
    if (bars.length) showBars(byId("times"), bars.slice(0, MAX_BARS));
    this.highlight(this.#lit);
    setText(byId("times-note"), bars.length > MAX_BARS ? `${MAX_BARS} fastest of ${bars.length}` : note);
    // Unless the user chose the runs, do not show that they cannot be compared.
    byId("headline-card").hidden = comparison.results.length < 2 || (!this.#isChosen && comparison.comparable !== "yes");
    showHeadline(byId("headline"), comparison);
    const targets = comparison.results.map((result) => result.target?.metric).filter(Boolean);
    const offered = await this.#loader.metrics(manifests);
    const asked = getParams("metric").filter(Boolean);
    const metrics = asked.length ? asked : defaultsOf(targets, offered);
    const drawn = await Promise.all(metrics.map((metric) => this.#fetch(found, metric)));
    if (drawing !== this.#drawing) return;
    offerCharts(byId("more-charts"), [...new Set([...targets, ...offered])].filter((metric) => !metrics.includes(metric)));
    this.#drawn = drawn;
    this.#drawCharts();
  }

  /** @returns {Promise<Drawn>} over the chosen axis, or else the first that the runs have recorded. */
  async #fetch(/** @type {Found} */ found, /** @type {string} */ metric) {
    const chosen = getParam("axis");
    const axes = chosen in AXES ? [chosen] : Object.keys(AXES);
    try {
      for (const axis of axes) {
        const columns = await this.#loader.columns(found, metric, axis);
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

  #drawCharts() {
    if (!this.#drawn.length || !this.#found) return;
    for (const radio of byId("axis").querySelectorAll("input")) radio.checked = radio.value === this.#drawn[0].axis;
    const canGroup = this.#found.comparison.groups.some((group) => group.run_ids.length > 1);
    byId("of-groups").parentElement.hidden = !canGroup;
    byId("of-groups").checked = canGroup && getParam("curves") === "groups";
    const make = (/** @type {Drawn} */ { metric }) => this.#makeChart(metric);
    reconcile(byId("metric-charts"), this.#drawn, ({ metric }) => metric, make, (part, drawn) => this.#drawChart(part, drawn));
  }

  #makeChart(/** @type {string} */ metric) {
    const title = metricTitle(metric);
    const place = h("div");
    const head = h("div", { class: "side-head" }, h("h2", { title: metric }, title), h("span", { class: "side-note" }));
    const part = h("section", { class: "side-part", "aria-label": title }, head, h("p", { class: "soft" }), place);
    const chart = new Chart(place, title, { hasLegend: false, hasFiles: false });
    chart.onHover = (ids) => this.highlight(ids);
    const remove = () => this.#change({ metric: this.#metrics.filter((other) => other !== metric) });
    addMenu(head, title, [...chart.exports, ["Remove chart", remove]]);
    this.#charts.set(metric, chart);
    return part;
  }

  #drawChart(/** @type {HTMLElement} */ part, /** @type {Drawn} */ { metric, axis, columns }) {
    const chart = this.#charts.get(metric);
    const { comparison, manifests } = this.#found;
    const visible = this.#visible;
    const curves = comparison.results.map((result, i) => ({ result, column: columns?.[i] }));
    const shown = curves.filter(({ result, column }) => column?.x.length && visible.includes(result.run_id));
    const over = AXES[axis].toLowerCase();
    const missing = columns ? `No values of ${metric} over ${over}.` : "Not known: the samples could not be loaded.";
    setNotice(part.querySelector("p"), shown.length ? "" : missing);
    chart.element.hidden = !shown.length;
    part.classList.toggle("is-empty", !shown.length);
    const isGrouped = byId("of-groups").checked;
    const which = isGrouped ? "means of groups" : `${shown.length} of ${plural(curves.length, "run")}`;
    setText(part.querySelector(".side-note"), `over ${over} · ${which}`);
    if (!shown.length) return;
    const results = shown.map(({ result }) => result);
    const ids = results.map(({ run_id }) => run_id);
    chart.caption = captionOf(results, manifests.filter(({ run_id }) => ids.includes(run_id)));
    const data = { metric, axis, results, columns: shown.map(({ column }) => column) };
    drawCurves(chart, data, isGrouped ? comparison.groups : null, (id) => this.#styleOf(id), this.#look.axes([metric]));
  }
}

const FREE = "-";
const RUN_ID = /^[1-9]\d{0,14}$/;

/**
 * A selected run. Its place gives its colour, and stays while other runs come and go.
 * @typedef {{ id: number, place: number }} Selected
 */

/** @returns {Selected[]} the distinct runs in a text such as `7,-,9`, in which a place is free. */
export function parseSelection(/** @type {string} */ text) {
  const words = text.trim().split(/\s*,\s*|\s+/);
  const isRun = (/** @type {string} */ word, /** @type {number} */ place) => RUN_ID.test(word) && words.indexOf(word) === place;
  return words.flatMap((word, place) => (isRun(word, place) ? [{ id: Number(word), place }] : []));
}

/** @returns {string} the text of a selection, with its free places. */
export function formatSelection(/** @type {Selected[]} */ selected) {
  const ids = [];
  for (const { id, place } of selected) ids[place] = id;
  return Array.from(ids, (id) => id ?? FREE).join(",");
}

/** @returns {Selected[]} without a run that is selected, or else with it at the first free place. */
export function toggled(/** @type {Selected[]} */ selected, /** @type {number} */ id) {
  if (selected.some((run) => run.id === id)) return selected.filter((run) => run.id !== id);
  const taken = new Set(selected.map(({ place }) => place));
  let place = 0;
  while (taken.has(place)) place += 1;
  return [...selected, { id, place }].sort((a, b) => a.place - b.place);
}
