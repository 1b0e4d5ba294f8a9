// Line and bar charts, drawn by plotly.js, which is loaded with the first chart.

import { h } from "./dom.js";
import { ofBars, ofLines } from "./plot.js";
import * as theme from "./theme.js";

/** @typedef {import("./plot.js").Line} Line @typedef {import("./plot.js").Bars} Bars */

const BAR_PX = 34;
const AXIS_PX = 80;
const LEGEND_PX = 22;
const LEGEND_WIDTH_PX = 170;
const RETRY_MS = 3000;
const CONFIG = { displayModeBar: false, scrollZoom: false };

let loading;

function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const src = new URL("../plotly.min.js", import.meta.url).href;
    const script = h("script", { src });
    const letStyles = withoutStyles();
    script.addEventListener("load", () => {
      letStyles();
      resolve(globalThis.Plotly);
    });
    script.addEventListener("error", () => {
      letStyles();
      loading = undefined; // the next chart tries again
      reject(new Error("The master gives no answer"));
    });
    document.head.append(script);
  });
  return loading;
}

// On loading, plotly.js adds a style element for its maps, which the pages' policy refuses.
function withoutStyles() {
  const create = document.createElement;
  document.createElement = (name, options) =>
    create.call(document, name === "style" ? "template" : name, options);
  return () => (document.createElement = create);
}

/** A chart in `element`. Drawing again keeps zoom and hidden curves, unless the axes are others. */
export class Chart {
  /**
   * @param {HTMLElement} element
   * @param {string} label its description for screen readers
   */
  constructor(element, label) {
    this.element = element;
    element.classList.add("chart");
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", label);
    plotly().catch(() => {}); // load it early; drawing tries again
    theme.onChange(() => this.#redraw());
  }

  /**
   * Draw lines.
   * @param {Line[]} lines
   * @param {import("./plot.js").Axes} axes
   */
  draw(lines, axes = {}) {
    this.figure = () => ofLines(lines, axes);
    return this.#redraw();
  }

  /**
   * Draw one stacked bar per row, and make the chart as high as they need.
   * @param {string[]} rows the names of the bars
   * @param {Bars[]} parts
   * @param {{ x?: string, suffix?: string }} axes
   */
  drawBars(rows, parts, axes = {}) {
    const width = this.element.clientWidth;
    this.figure = () => ofBars(rows, parts, axes, width);
    const inLine = Math.max(1, Math.floor(width / LEGEND_WIDTH_PX));
    const legend = parts.length > 1 ? LEGEND_PX * Math.ceil(parts.length / inLine) : 0;
    this.element.style.height = `${BAR_PX * rows.length + AXIS_PX + legend}px`;
    return this.#redraw();
  }

  async #redraw() {
    if (!this.figure) return;
    let library;
    try {
      library = await plotly();
    } catch {
      setTimeout(() => this.#redraw(), RETRY_MS); // the page says that the master is away
      return;
    }
    const { data, layout } = this.figure();
    await library.react(this.element, data, layout, CONFIG);
    this.#followSize(library);
  }

  // plotly.js follows the window's size only, not that of the chart's element.
  #followSize(library) {
    if (this.observer) return;
    let width = this.element.clientWidth;
    this.observer = new ResizeObserver(() => {
      if (this.element.clientWidth === width || !this.element.clientWidth) return;
      width = this.element.clientWidth;
      library.Plots.resize(this.element);
    });
    this.observer.observe(this.element);
  }
}
