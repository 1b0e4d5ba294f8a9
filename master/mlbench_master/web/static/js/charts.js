// Charts beside each other, each with a heading; a button removes one that was added.

import { Chart } from "./chart.js";
import { h, reconcile, setOptions } from "./dom.js";

/** @typedef {{ title: string, label: string, isAdded: boolean }} Wanted */

/** Offer a chart of each of these metrics. */
export function offerCharts(/** @type {HTMLSelectElement} */ select, /** @type {string[]} */ metrics) {
  setOptions(select, ["", ...metrics], (metric) => metric || "Add a chart…");
  select.value = "";
  select.disabled = metrics.length === 0;
}

/** The charts of a section, by their titles. */
export class Charts {
  /** @type {Map<string, Chart>} */
  #byTitle = new Map();

  /**
   * @param {HTMLElement} place
   * @param {(title: string) => void} onRemove called when the user removes a chart
   */
  constructor(place, onRemove) {
    this.place = place;
    this.onRemove = onRemove;
  }

  /** Create these charts; `get` returns the data to draw. */
  show(/** @type {Wanted[]} */ wanted) {
    reconcile(this.place, wanted, ({ title }) => title, (chart) => this.#make(chart), (part, { isAdded }) => {
      part.querySelector("button").hidden = !isAdded;
    });
  }

  /** @returns {Chart} the chart of a title that is shown. */
  get(/** @type {string} */ title) {
    return this.#byTitle.get(title);
  }

  #make(/** @type {Wanted} */ { title, label }) {
    const place = h("div");
    this.#byTitle.set(title, new Chart(place, label));
    const onclick = () => this.onRemove(title);
    const remove = h("button", { type: "button", class: "quiet", "aria-label": `Remove ${title}`, onclick }, "Remove");
    return h("div", { class: "chart-part" }, h("div", { class: "head" }, h("h3", {}, title), remove), place);
  }
}
