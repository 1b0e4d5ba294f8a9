// Charts beside each other, each with a heading; a button removes one that was added.

import { Chart } from "./chart.js";
import { h, reconcile, setOptions } from "./dom.js";

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

  /** `onRemove` is called with the title of a chart that the user removes. */
  constructor(/** @type {HTMLElement} */ place, /** @type {(title: string) => void} */ onRemove) {
    this.place = place;
    this.onRemove = onRemove;
  }

  /** Create these charts; `get` returns one to draw. */
  show(/** @type {{ title: string, label: string, isAdded: boolean }[]} */ charts) {
    reconcile(this.place, charts, ({ title, isAdded }) => `${title} ${isAdded}`, ({ title, label, isAdded }) => {
      const place = h("div");
      this.#byTitle.set(title, new Chart(place, label));
      const action = { "aria-label": `Remove ${title}`, onclick: () => this.onRemove(title) };
      const remove = isAdded && h("button", { type: "button", class: "quiet", ...action }, "Remove");
      return h("div", { class: "chart-part" }, h("div", { class: "head" }, h("h3", {}, title), remove), place);
    });
  }

  /** @returns {Chart} the chart of a title that is shown. */
  get(/** @type {string} */ title) {
    return this.#byTitle.get(title);
  }
}
