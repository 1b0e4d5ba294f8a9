// Charts drawn by uPlot: with a legend, zoom, files, and the values under the cursor.

import uPlot from "../vendor/uPlot.esm.js";
import { draw, h, reconcile, svg } from "./dom.js";
import { copyText, DASHES, fileName, save, toCsv, toPng, toSvg } from "./export.js";
import { number } from "./format.js";
import { onPoint, onZoom, pointAt, zoomOf, zoomTo } from "./look.js";
import { extentOf, paintOn, plotOf, smoothed, styleOf } from "./plot.js";
import * as theme from "./theme.js";

/** @import { Axes, Line, View } from "./plot.js" */

// With more lines than this, only the values of the lines next to the cursor are shown.
const MAX_VALUES = 20;
const MIN_ZOOM_PX = 5;
// A line is under the cursor up to this distance.
const NEAR_PX = 24;
const PALE = 0.2;
// Arrow keys move the cursor by this part of the width.
const KEY_PART = 0.01;
const NO_CURSOR = { left: -10, top: -10 };
// The size on paper of a chart behind another tab, which has no size on the screen.
const PAPER_SIZE = { width: 720, height: 190 };
const paper = matchMedia("print");

/** @returns {SVGElement} a sample of a line. */
export function sample(/** @type {{ colour?: string, dash?: "solid" | "dash" | "dot" }} */ { colour, dash = "solid" }) {
  const stroke = { stroke: `var(${colour})`, "stroke-width": 3, "stroke-dasharray": DASHES[dash] };
  return svg(
    "svg",
    { class: "sample", viewBox: "0 0 22 8", "aria-hidden": "true" },
    svg("line", { x1: 0, x2: 22, y1: 4, y2: 4, ...stroke }),
  );
}

/**
 * A chart in `element`, of lines or of a drawing by the function `paint` of its axes. Dragging and the
 * keys `+` and `-` zoom, along a shared axis with all charts over it; a double click shows all again.
 * Arrow keys move the cursor, and the entries of the legend hide and show lines. Drawing again keeps
 * all this, unless the axes are others. The lines that are shown can be saved.
 */
export class Chart {
  /** Called with the keys of the line under the cursor; empty when there is none. */
  onHover = (/** @type {number[]} */ _keys) => {};
  /** Called with the place of the cursor on the axis, and the share of the height above the pointer. */
  onCursor = (/** @type {number | null} */ _place, /** @type {number | null} */ _above) => {};
  /** Description of the runs in the caption of an exported figure. */
  caption = "";
  #plot = null;
  /** @type {Line[]} */
  #lines = [];
  /** @type {Line[]} the lines that the legend does not hide */
  #shown = [];
  /** @type {Axes} */
  #axes = {};
  #looks = "";
  #hidden = new Set();
  /** @type {View} */
  #view = { x: null, y: null, extent: [0, 1] };
  #all = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#zoom(null, null) }, "Show all");
  #legend = h("div", { class: "legend", role: "group", "aria-label": "Shown lines" });
  #values = h("div", { class: "chart-values", hidden: true });
  /** @type {Set<number>} */
  #lit = new Set();
  /** @type {Line | null} */
  #hovered = null;
  /** Whether the pointer was over the chart; only that chart leads, so that charts do not answer each other. */
  #isPointed = false;
  /** What can be copied or saved: the name of a button, and its action. @type {[string, () => unknown][]} */
  exports = [
    ["Copy as figure", () => copyText(this.#toSvg(), this.#fileName("svg"), "image/svg+xml")],
    ["SVG", () => save(this.#toSvg(), this.#fileName("svg"))],
    ["PNG", async () => save(await toPng(this.#toSvg()), this.#fileName("png"))],
    ["CSV", () => save(toCsv(this.#shown, this.#axes), this.#fileName("csv"))],
  ];

  /** Make a chart with a description for screen readers, and with a legend and files below it. */
  constructor(/** @type {HTMLElement} */ element, /** @type {string} */ label, { hasLegend = true, hasFiles = true } = {}) {
    this.label = label;
    this.element = element;
    this.place = h("div", { class: "chart-plot", role: "img", "aria-label": label, tabindex: 0 });
    element.classList.add("chart");
    const quiet = { type: "button", class: "quiet" };
    const toButton = ([kind, onclick]) => h("button", { ...quiet, "aria-label": `${kind} of ${label}`, onclick }, kind);
    const files = h("div", { class: "chart-files" }, this.#all, hasFiles && this.exports.map(toButton));
    element.append(this.place, h("div", { class: "chart-foot" }, hasLegend && this.#legend, files));
    this.place.addEventListener("keydown", (event) => this.#pressKey(event));
    onZoom(() => this.#axes.shared && this.#update());
    onPoint(() => this.#axes.shared, (place) => this.#isPointed || this.#setCursor(place));
    theme.onChange(() => this.#update()); // the colours are a part of its looks
    paper.addEventListener("change", () => this.#print());
    new ResizeObserver(() => {
      if (paper.matches || !this.place.clientWidth) return;
      if (this.#plot) this.#plot.setSize(this.#size);
      else this.#update();
    }).observe(this.place);
  }

  /** @returns {[number, number]} the part of the horizontal axis that is shown. */
  get range() {
    return this.#view.x ?? this.#view.extent;
  }

  get isZoomed() {
    return Boolean(this.#view.x || this.#view.y);
  }

  draw(/** @type {Line[]} */ lines, /** @type {Axes} */ axes = {}) {
    const isOther = axes.x !== this.#axes.x || axes.xType !== this.#axes.xType || axes.yType !== this.#axes.yType;
    if (isOther) this.#view.x = this.#view.y = null;
    const isLog = axes.xType === "log";
    const extent = (!isLog && axes.extent) || extentOf(lines.map(({ x }) => x), isLog);
    this.#view.extent = extent[0] <= extent[1] ? extent : [0, 1];
    this.#lines = lines.map((line, i) => ({ ...styleOf(i), ...line, ...smoothed(line, axes, this.#view.extent) }));
    this.#axes = axes;
    const names = lines.map(({ name }) => name).join(", ");
    const over = [axes.y, "by", axes.x].filter(Boolean).join(" ");
    this.place.setAttribute("aria-label", axes.label ?? `${this.label}: ${names}; ${over}`);
    const entries = lines.length > 1 || axes.stacked ? this.#lines : [];
    reconcile(this.#legend, entries, entryOf, (line) => this.#makeEntry(line));
    this.#update();
  }

  /** Paint again, because something that `paint` shows has changed. */
  repaint() {
    this.#plot?.redraw(false);
  }

  // A chart with the same options only gets the new columns, so that it does not flicker.
  #update() {
    const { shared, stacked, paint, xTicks, xSuffix, ySuffix, xType, yRange } = this.#axes;
    if (shared) this.#view.x = zoomOf(shared, xType === "log");
    this.#all.hidden = !this.isZoomed;
    // It is drawn when it is shown, or printed.
    if (!(this.place.clientWidth || paper.matches) || !(this.#lines.length || paint)) return;
    this.#shown = this.#lines.filter(({ name }) => !this.#hidden.has(name));
    const { options, data } = plotOf(this.#shown, this.#axes, this.#view);
    const looks = JSON.stringify([options, xTicks, xSuffix, ySuffix, yRange]);
    if (this.#plot && looks === this.#looks) {
      this.#plot.setData(data);
      return;
    }
    this.#plot?.destroy();
    this.#looks = looks;
    const cursor = {
      drag: { x: true, y: !paint, uni: 24, dist: MIN_ZOOM_PX, setScale: false },
      bind: { dblclick: () => () => this.#zoom(null, null) },
      hover: { prox: Number.MAX_VALUE, skip: [null] },
      y: !stacked,
    };
    const hooks = {
      draw: [(plot) => paintOn(plot, this.#axes)],
      setCursor: [(plot) => this.#moveCursor(plot)],
      setSelect: [(plot) => this.#zoomToSelected(plot)],
    };
    this.#plot = new uPlot({ ...this.#size, ...options, cursor, hooks }, data, this.place);
    this.#plot.over.append(this.#values);
    this.#light();
  }

  /** Draw the lines that have one of these keys, and the others pale; without keys, draw all alike. */
  highlight(/** @type {number[]} */ keys) {
    if (keys.length === this.#lit.size && keys.every((key) => this.#lit.has(key))) return;
    this.#lit = new Set(keys);
    this.#light();
  }

  #light() {
    const isLit = ({ keys = [] }) => keys.some((key) => this.#lit.has(key));
    const isAny = this.#shown.some(isLit);
    for (const series of this.#plot?.series.slice(1) ?? []) series.alpha = isAny && !isLit(this.#shown[series.owner]) ? PALE : 1;
    this.repaint();
  }

  get #size() {
    return this.place.clientWidth ? { width: this.place.clientWidth, height: this.place.clientHeight } : PAPER_SIZE;
  }

  #moveCursor(plot) {
    const { left, top } = plot.cursor;
    const place = left < 0 ? null : plot.posToVal(left, "x");
    const isPointed = plot.over.matches(":hover");
    this.#isPointed ||= isPointed;
    if (this.#isPointed && this.#axes.shared) pointAt(place, this.#axes.shared);
    this.#isPointed = isPointed;
    // Asking the element for its height would lay out the page.
    this.onCursor(place, isPointed ? (top * devicePixelRatio) / plot.bbox.height : null);
    this.#showValues(plot);
  }

  #setCursor(/** @type {number | null} */ place) {
    if (!this.#plot) return;
    const isInside = place !== null && place >= this.range[0] && place <= this.range[1];
    this.#plot.setCursor(isInside ? { left: this.#plot.valToPos(place, "x"), top: Math.max(0, this.#plot.cursor.top) } : NO_CURSOR);
  }

  #pressKey(/** @type {KeyboardEvent} */ event) {
    const [from, to] = this.range;
    const left = this.#plot?.cursor.left ?? -1;
    const at = left < 0 ? (from + to) / 2 : this.#plot.posToVal(left, "x");
    const move = { ArrowLeft: -KEY_PART, ArrowRight: KEY_PART }[event.key];
    const factor = { "+": 0.5, "-": 2 }[event.key];
    if (!this.#plot || !(move || factor)) return;
    event.preventDefault();
    if (move) {
      const place = Math.max(from, Math.min(to, at + move * (to - from)));
      this.#setCursor(place);
      if (this.#axes.shared) pointAt(place, this.#axes.shared);
      return;
    }
    const [first, last] = [from, to].map((end) => at + (end - at) * factor);
    const isAll = first <= this.#view.extent[0] && last >= this.#view.extent[1];
    this.#zoom(isAll ? null : [first, last], this.#view.y);
  }

  #zoomToSelected(plot) {
    const { left, top, width, height } = plot.select;
    if (!width && !height) return;
    const { clientWidth, clientHeight } = plot.over;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    const valueOf = (end, scale) => plot.posToVal(end, scale);
    this.#zoom(
      width < clientWidth ? [valueOf(left, "x"), valueOf(left + width, "x")] : this.#view.x,
      height < clientHeight ? [valueOf(top + height, "y"), valueOf(top, "y")] : this.#view.y,
    );
  }

  #zoom(/** @type {View["x"]} */ x, /** @type {View["y"]} */ y) {
    this.#view.x = x;
    this.#view.y = y;
    if (this.#axes.shared) zoomTo(x, this.#axes.shared);
    else this.#update();
  }

  #fileName(/** @type {string} */ ending) {
    return fileName(`${document.title.split(" · ")[0]}: ${this.label}`, ending);
  }

  #figure() {
    return toSvg(this.#plot, this.#shown, this.#axes, this.label, this.caption);
  }

  #toSvg() {
    return new XMLSerializer().serializeToString(this.#figure());
  }

  // On paper, a figure replaces the canvas, which is as wide as the screen.
  #print() {
    this.place.querySelector(":scope > svg")?.remove();
    if (!paper.matches) return;
    if (!this.#plot) this.#update();
    // A new plot is drawn in a microtask.
    queueMicrotask(() => this.#plot && this.place.append(this.#figure()));
  }

  #makeEntry(/** @type {Line} */ line) {
    const { name, hint = name } = line;
    const onclick = () => {
      if (!this.#hidden.delete(name)) this.#hidden.add(name);
      entry.setAttribute("aria-pressed", String(!this.#hidden.has(name)));
      this.#update();
    };
    const props = { type: "button", class: "quiet legend-entry", "aria-pressed": String(!this.#hidden.has(name)), title: hint };
    const entry = h("button", { ...props, onclick }, sample(line), h("span", {}, name));
    return entry;
  }

  // The values under the cursor, sorted: of each line at its point that is nearest.
  #showValues(plot) {
    const { left, top, idxs } = plot.cursor;
    const { min, max } = plot.scales.x;
    /** @type {Map<Line, { line: Line, x: number, value: number, away: number, scale: string }>} */
    const byLine = new Map();
    plot.series.forEach(({ owner, isCurve, scale }, at) => {
      const line = this.#shown[owner];
      const [x, value] = [plot.data[0][idxs[at]], plot.data[at]?.[idxs[at]]];
      const away = Math.abs(plot.valToPos(x, "x") - left);
      const isIn = isCurve && x >= min && x <= max;
      if (isIn && !(away >= byLine.get(line)?.away)) byLine.set(line, { line, x, value, away, scale });
    });
    const fromCursor = ({ value, scale }) => Math.abs(plot.valToPos(value, scale) - top);
    const points = [...byLine.values()].sort((a, b) => fromCursor(a) - fromCursor(b));
    const [closest] = points;
    this.#values.hidden = left < 0 || !closest;
    const hovered = this.#values.hidden || fromCursor(closest) >= NEAR_PX ? null : closest.line;
    if (hovered !== this.#hovered) this.onHover(hovered?.keys ?? []);
    this.#hovered = hovered;
    if (this.#values.hidden) return;
    const { x: title = "", ySuffix = "" } = this.#axes;
    const toRow = ({ line, x, value, scale }) => ({
      line,
      name: this.#lines.length > 1 ? line.name : "",
      text: number(value, 5) + (scale === "y" ? ySuffix : "") + aboutOf(line, x),
    });
    const shown = points.slice(0, MAX_VALUES).sort((a, b) => b.value - a.value);
    /** @type {{ line: Line | null, name: string, text: string }[]} */
    const rows = [{ line: null, name: `${title} ${number(closest.x, 6)}`, text: "" }, ...shown.map(toRow)];
    draw(this.#values, rows, ({ line }) => line && entryOf(line), ({ line, name, text }) =>
      h("div", { "data-nearest": line === closest.line }, line && sample(line), h("bdi", {}, name), h("b", {}, text)),
    );
    this.#values.style.left = `${left}px`;
    this.#values.toggleAttribute("data-before", left > plot.over.clientWidth / 2);
  }
}

function entryOf(/** @type {Line} */ { name, colour, dash }) {
  return [name, colour, dash].join(" ");
}

// How sure a mean is, and of how many runs.
function aboutOf(/** @type {Line} */ { x, y, highs, counts }, /** @type {number} */ place) {
  if (!counts) return "";
  const i = x.indexOf(place);
  const half = Number.isFinite(highs[i]) ? ` ± ${number(highs[i] - y[i], 3)}` : "";
  return `${half} (n = ${counts[i]})`;
}
