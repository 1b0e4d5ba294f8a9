// Draws line and bar charts by plotly.js, which is fetched when the first chart is drawn.

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

// As it begins, plotly.js adds the rules of its maps in an element that our policy refuses.
function withoutStyles() {
  const create = document.createElement;
  document.createElement = (name, options) =>
    create.call(document, name === "style" ? "template" : name, options);
  return () => (document.createElement = create);
}

/**
 * A chart in `element`. What is drawn is handed to `draw`, as often as it changes; zoom and hidden
 * curves stay, as long as the meaning of the axes (`axes`) does.
 */
export class Chart {
  /**
   * @param {HTMLElement} element
   * @param {string} label what it shows, for those who cannot see it
   */
  constructor(element, label) {
    this.element = element;
    element.classList.add("chart");
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", label);
    // Long before there is something to draw; where it fails, the drawing tries again.
    plotly().catch(() => {});
    theme.onChange(() => this.#redraw());
  }

  /**
   * Draw lines.
   * @param {Line[]} lines
   * @param {{ x?: string, y?: string, xType?: "linear" | "log" | "date", yType?: "linear" | "log",
   *   xTicks?: number[], ySuffix?: string, fromZero?: boolean, hasLegend?: boolean,
   *   marks?: { y: number, text: string }[],
   *   moments?: { x: number | Date, text: string }[] }} axes titles and kinds of the axes, horizontal
   *   marks such as a goal, vertical ones such as a restart
   */
  draw(lines, axes = {}) {
    this.last = () => ofLines(lines, axes);
    return this.#redraw();
  }

  /**
   * Draw bars, stacked, of each of `rows` one; the chart gets as high as they need.
   * @param {string[]} rows
   * @param {Bars[]} parts
   * @param {{ x?: string, suffix?: string }} axes
   */
  drawBars(rows, parts, axes = {}) {
    const width = this.element.clientWidth;
    this.last = () => ofBars(rows, parts, axes, width);
    const inLine = Math.max(1, Math.floor(width / LEGEND_WIDTH_PX));
    const legend = parts.length > 1 ? LEGEND_PX * Math.ceil(parts.length / inLine) : 0;
    this.element.style.height = `${BAR_PX * rows.length + AXIS_PX + legend}px`;
    return this.#redraw();
  }

  async #redraw() {
    if (!this.last) return;
    let library;
    try {
      library = await plotly();
    } catch {
      setTimeout(() => this.#redraw(), RETRY_MS); // the master is away, as the page says
      return;
    }
    const { data, layout } = this.last();
    await library.react(this.element, data, layout, CONFIG);
    this.#followSize(library);
  }

  // plotly.js itself hears of the window's size alone, not of a chart that comes beside.
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
