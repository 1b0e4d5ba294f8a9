// How curves are looked at: smoothed, and on logarithmic axes. The page's address keeps it.

import { byId, getParam, setParams, setText } from "./dom.js";
import { isPercent } from "./format.js";

/** @import { Axes } from "./plot.js" */

/** The controls of templates/_curves.html. */
export class Look {
  #smoothing = byId("smoothing");
  #logX = byId("log-x");
  #logY = byId("log-y");

  /** @param {() => void} onChange called when the curves must be drawn anew */
  constructor(onChange) {
    const scaleOf = (/** @type {HTMLInputElement} */ box) => (box.checked ? "log" : "");
    const show = () => setText(byId("smoothing-shown"), +this.#smoothing.value ? `${this.#smoothing.value} %` : "off");
    this.#smoothing.value = getParam("smoothing") || "0";
    this.#logX.checked = getParam("xscale") === "log";
    this.#logY.checked = getParam("scale") === "log";
    show();
    for (const control of [this.#smoothing, this.#logX, this.#logY]) {
      control.addEventListener("input", show);
      control.addEventListener("input", onChange);
      control.addEventListener("change", () => {
        const smoothing = Number(this.#smoothing.value) ? this.#smoothing.value : "";
        setParams({ smoothing, xscale: scaleOf(this.#logX), scale: scaleOf(this.#logY) });
      });
    }
  }

  /** @returns {Axes} the options of a chart's axes; percentages are never logarithmic. */
  axes(/** @type {string[]} */ metrics = []) {
    return {
      smoothing: Number(this.#smoothing.value) / 100,
      xType: this.#logX.checked ? "log" : "linear",
      yType: this.#logY.checked && !metrics.some(isPercent) ? "log" : "linear",
    };
  }
}
