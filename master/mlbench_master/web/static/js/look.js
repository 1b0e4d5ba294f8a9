// The view of charts: smoothing, logarithmic axes, and the zoom and the cursor, which charts over the same axis share.
// The page's address stores it, as in `zoom=wall,60,120`.

import { byId, getParam, setOptions, setParams, setText } from "./dom.js";
import { isPercent } from "./format.js";

/**
 * @import { Axes } from "./plot.js"
 *
 * The axis that charts share, and its unit in units of the address: 60 for a chart over minutes,
 * because the address has seconds.
 * @typedef {{ axis: string, unit: number }} Shared
 */

const CHANGE = "zoomchange";
const POINT = "pointchange";
const DIGITS = 8;

/** @returns {[number, number] | null} the range that an address asks for; null for all of it. */
export function parseZoom(/** @type {string} */ text, /** @type {Shared} */ { axis, unit }) {
  const [name, ...ends] = text.split(",");
  const [from, to] = ends.map((end) => Number(end) / unit);
  return name === axis && from < to ? [from, to] : null;
}

/** @returns {string} how an address asks for a range. */
export function formatZoom(/** @type {[number, number]} */ range, /** @type {Shared} */ { axis, unit }) {
  return [axis, ...range.map((end) => Number((end * unit).toPrecision(DIGITS)))].join(",");
}

/** @returns {[number, number] | null} the range of an axis that is shown; null for all of it. */
export function zoomOf(/** @type {Shared} */ shared, isLog = false) {
  const range = parseZoom(getParam("zoom"), shared);
  return range && isLog && range[0] <= 0 ? null : range; // a logarithm begins above 0
}

/** Show a range on all charts over an axis, or all of it. */
export function zoomTo(/** @type {[number, number] | null} */ range, /** @type {Shared} */ shared) {
  setParams({ zoom: range ? formatZoom(range, shared) : "" });
  document.dispatchEvent(new Event(CHANGE));
}

/** Call `listener` whenever another range is shown. */
export function onZoom(/** @type {() => void} */ listener) {
  document.addEventListener(CHANGE, listener);
}

/** Show the cursor of all charts over an axis at a place, or hide it. */
export function pointAt(/** @type {number | null} */ place, /** @type {Shared} */ { axis, unit }) {
  document.dispatchEvent(new CustomEvent(POINT, { detail: { axis, at: place === null ? null : place * unit } }));
}

/** Follow the cursor of the charts over the axis that `sharedOf` returns. */
export function onPoint(/** @type {() => Shared | undefined} */ sharedOf, /** @type {(place: number | null) => void} */ listener) {
  document.addEventListener(POINT, (/** @type {CustomEvent} */ { detail: { axis, at } }) => {
    const shared = sharedOf();
    if (shared?.axis === axis) listener(at === null ? null : at / shared.unit);
  });
}

/** Offer a chart of each of these metrics. */
export function offerCharts(/** @type {HTMLSelectElement} */ select, /** @type {string[]} */ metrics) {
  setOptions(select, ["", ...metrics], (metric) => metric || "Add a chart…");
  select.value = "";
  select.disabled = metrics.length === 0;
}

/** The controls of templates/_curves.html. */
export class Look {
  #smoothing = byId("smoothing");
  #logX = byId("log-x");
  #logY = byId("log-y");

  /** @param {() => void} onChange called when the curves must be redrawn */
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
