// Charts of lines, drawn by uPlot: with a legend, zoom, files, and the values under the cursor.

import uPlot from "../vendor/uPlot.esm.js";
import { h, reconcile, setText, svg } from "./dom.js";
import { copyText, DASHES, fileName, save, saveCsv, toCsv, toPng, toSvg } from "./export.js";
import { number } from "./format.js";
import { extentOf, nearest, smoothed } from "./lines.js";
import { drawOver, partsOf, plotOf, styleOf } from "./plot.js";
import * as theme from "./theme.js";
import { onPoint, onZoom, pointAt, zoomOf, zoomTo } from "./zoom.js";

/**
 * @import { Part } from "./lines.js"
 * @import { Axes, Line, View } from "./plot.js"
 */

// Of more lines, the values of those are shown that are next to the cursor.
const MAX_VALUES = 20;
const MIN_ZOOM_PX = 5;
const BESIDE_PX = 14;
// A line is under the cursor up to this distance.
const NEAR_PX = 24;
const PALE = 0.2;
const SVG = "image/svg+xml";
const paper = matchMedia("print");
// Charts of a stack share one crosshair, and each zooms by its own drags.
const SYNC = {
  ...{ key: "stack", scales: ["x", null] },
  filters: { pub: (type) => type === "mousemove" || type === "mouseleave", sub: () => true },
};

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
 * A chart of lines in `element`. Dragging zooms, along a shared axis with all charts over it; a
 * double click shows all again, and the entries of the legend hide and show lines. Drawing again
 * keeps all this, unless the axes are others. The lines that are shown can be saved.
 */
export class Chart {
  /** Called with the keys of the line under the cursor; empty when there is none. */
  onHover = (/** @type {number[]} */ _keys) => {};
  /** What the caption of an exported figure says of its runs. */
  caption = "";
  #plot = null;
  /** @type {Line[]} */
  #lines = [];
  /** @type {Axes} */
  #axes = {};
  /** @type {Part[][]} */
  #parts = [];
  #owners = [];
  #looks = "";
  #hidden = new Set();
  /** @type {View} */
  #view = { x: null, y: null, extent: [0, 1], isWhole: false, pixels: 1 };
  #all = h("button", { type: "button", class: "quiet", hidden: true }, "Show all");
  #legend = h("div", { class: "legend", role: "group", "aria-label": "Shown lines" });
  #values = h("div", { class: "chart-values", hidden: true });
  /** @type {Set<number>} */
  #lit = new Set();
  #hovered = -1;
  /** What can be copied or saved: the name of a button, and its action. @type {[string, () => unknown][]} */
  exports = [
    ["Copy as figure", () => copyText(this.#toSvg(), this.#fileName("svg"), SVG)],
    ["SVG", () => save(new Blob([this.#toSvg()], { type: SVG }), this.#fileName("svg"))],
    ["PNG", async () => save(await toPng(this.#toSvg()), this.#fileName("png"))],
    ["CSV", () => saveCsv(toCsv(this.#shownLines(), this.#axes), this.#fileName("csv"))],
  ];

  /**
   * @param {HTMLElement} element
   * @param {string} label its description for screen readers
   * @param {{ hasLegend?: boolean, hasFiles?: boolean }} options what is below the chart
   */
  constructor(element, label, { hasLegend = true, hasFiles = true } = {}) {
    this.label = label;
    this.element = element;
    this.place = h("div", { class: "chart-plot", role: "img", "aria-label": label });
    element.classList.add("chart");
    const buttons = hasFiles ? this.exports.map(([kind, act]) => this.#fileButton(kind, act)) : [];
    this.#all.addEventListener("click", () => this.#zoom(null, null));
    element.append(this.place, h("div", { class: "chart-foot" }, hasLegend && this.#legend, h("div", { class: "chart-files" }, this.#all, buttons)));
    onZoom(() => this.#axes.shared && this.#plot && this.#update());
    onPoint(this, () => this.#axes.shared, (place) => this.#followCursor(place));
    theme.onChange(() => this.#plot && this.#update()); // the colours are a part of its looks
    paper.addEventListener("change", () => this.#print());
    new ResizeObserver(() => paper.matches || this.#follow()).observe(this.place);
  }

  draw(/** @type {Line[]} */ lines, /** @type {Axes} */ axes = {}) {
    const isOther = axes.x !== this.#axes.x || axes.xType !== this.#axes.xType || axes.yType !== this.#axes.yType;
    if (isOther) this.#view.x = this.#view.y = null;
    const isLog = axes.xType === "log";
    this.#view.extent = axes.extent ?? extentOf(lines.map(({ x }) => x), isLog);
    this.#view.isWhole = axes.extent !== undefined;
    this.#lines = lines.map((line, i) => ({ ...styleOf(i), ...line, ...smoothed(line, axes, this.#view.extent) }));
    this.#parts = this.#lines.map((line) => partsOf(line, axes));
    this.#axes = axes;
    const names = lines.map(({ name }) => name).join(", ");
    const over = [axes.y, "by", axes.x].filter(Boolean).join(" ");
    this.place.setAttribute("aria-label", `${this.label}: ${names}; ${over}`);
    this.#showLegend();
    this.#update();
  }

  // A chart with the same options only gets the new columns, so that it does not flicker.
  #update() {
    if (!this.place.clientWidth) return; // it is drawn when it is shown
    this.#view.pixels = this.place.clientWidth;
    if (this.#axes.shared) this.#view.x = zoomOf(this.#axes.shared, this.#axes.xType === "log");
    this.#all.hidden = !this.#view.x && !this.#view.y;
    const { options, data, owners } = plotOf(this.#lines, this.#parts, this.#axes, this.#view);
    const { xTicks, ySuffix } = this.#axes;
    const looks = JSON.stringify([options, owners, xTicks, ySuffix]);
    this.#owners = owners;
    if (this.#plot && looks === this.#looks) {
      this.#plot.setData(data);
      return;
    }
    this.#plot?.destroy();
    this.#looks = looks;
    this.#plot = new uPlot({ ...this.#size(), ...options, ...this.#behaviour() }, data, this.place);
    this.#plot.over.append(this.#values);
    for (const i of this.#lines.keys()) if (this.#isHidden(i)) this.#show(i);
    if (this.#lit.size) this.#light();
  }

  /** Draw the lines that have one of these keys, and the others pale; without keys, draw all alike. */
  highlight(/** @type {number[]} */ keys) {
    if (keys.length === this.#lit.size && keys.every((key) => this.#lit.has(key))) return;
    this.#lit = new Set(keys);
    if (this.#plot) this.#light();
  }

  #light() {
    const isLit = ({ keys = [] }) => keys.some((key) => this.#lit.has(key));
    const isAny = this.#lines.some(isLit);
    this.#owners.forEach((owner, at) => {
      const line = this.#lines[owner < 0 ? -1 - owner : owner];
      if (line) this.#plot.series[at].alpha = isAny && !isLit(line) ? PALE : 1;
    });
    this.#plot.redraw(false);
  }

  #follow() {
    if (!this.place.clientWidth) return;
    if (this.#plot) this.#plot.setSize(this.#size());
    else if (this.#lines.length) this.#update();
  }

  #size() {
    return { width: this.place.clientWidth, height: this.place.clientHeight };
  }

  #behaviour() {
    return {
      cursor: {
        drag: { x: true, y: true, uni: 24, dist: MIN_ZOOM_PX, setScale: false },
        bind: { dblclick: () => () => this.#zoom(null, null) },
        ...(this.#axes.stacked ? { y: false, sync: SYNC } : {}),
      },
      hooks: {
        draw: [(plot) => drawOver(plot, this.#lines, this.#axes, (i) => !this.#isHidden(i))],
        setCursor: [(plot) => this.#showValues(plot), (plot) => this.#shareCursor(plot)],
        setSelect: [(plot) => this.#zoomToSelected(plot)],
      },
    };
  }

  // Only the chart under the pointer leads, so that charts do not answer each other.
  #shareCursor(plot) {
    if (!this.#axes.shared || !plot.over.matches(":hover")) return;
    const { left } = plot.cursor;
    pointAt(left < 0 ? null : plot.posToVal(left, "x"), this.#axes.shared, this);
  }

  #followCursor(/** @type {number | null} */ place) {
    if (!this.#plot || this.#plot.over.matches(":hover")) return;
    const left = place === null ? -10 : this.#plot.valToPos(place, "x");
    const isInside = left >= 0 && left <= this.#plot.over.clientWidth;
    this.#plot.setCursor({ left: isInside ? left : -10, top: isInside ? 0 : -10 });
  }

  #zoomToSelected(plot) {
    const { left, top, width, height } = plot.select;
    if (!width && !height) return;
    const { clientWidth, clientHeight } = plot.over;
    const from = (offset, scale) => plot.posToVal(offset, scale);
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.#zoom(
      width < clientWidth ? [from(left, "x"), from(left + width, "x")] : this.#view.x,
      height < clientHeight ? [from(top + height, "y"), from(top, "y")] : this.#view.y,
    );
  }

  #zoom(/** @type {View["x"]} */ x, /** @type {View["y"]} */ y) {
    this.#view.x = x;
    this.#view.y = y;
    if (this.#axes.shared) zoomTo(x, this.#axes.shared);
    else this.#update();
  }

  #fileButton(/** @type {string} */ kind, /** @type {() => void} */ onclick) {
    return h("button", { type: "button", class: "quiet", "aria-label": `${kind} of ${this.label}`, onclick }, kind);
  }

  #shownLines() {
    return this.#lines.filter((_, i) => !this.#isHidden(i));
  }

  #fileName(/** @type {string} */ ending) {
    return fileName(`${document.title.split(" · ")[0]}: ${this.label}`, ending);
  }

  #figure() {
    const parts = this.#parts.filter((_, i) => !this.#isHidden(i));
    return toSvg(this.#plot, this.#shownLines(), parts, this.#axes, { title: this.label, caption: this.caption });
  }

  #toSvg() {
    return new XMLSerializer().serializeToString(this.#figure());
  }

  // On paper, a figure takes the place of the canvas, whose width is that of the screen.
  #print() {
    this.place.querySelector(":scope > svg")?.remove();
    if (paper.matches && this.#plot) this.place.append(this.#figure());
  }

  #isHidden(i) {
    return this.#hidden.has(this.#lines[i].name);
  }

  #show(/** @type {number} */ i) {
    const show = !this.#isHidden(i);
    this.#owners.forEach((owner, at) => {
      if (owner === i || owner === -1 - i) this.#plot?.setSeries(at, { show });
    });
  }

  #showLegend() {
    const entries = this.#lines.length > 1 || this.#axes.stacked ? this.#lines : [];
    const keyOf = (/** @type {Line} */ { name, colour, dash }) => [name, colour, dash].join(" ");
    reconcile(this.#legend, entries, keyOf, (entry) => this.#makeEntry(entry));
  }

  #makeEntry(/** @type {Line} */ { name, colour, dash, hint }) {
    const button = h(
      "button",
      { type: "button", class: "quiet legend-entry", "aria-pressed": String(!this.#hidden.has(name)), title: hint ?? name },
      sample({ colour, dash }),
      h("span", {}, name),
    );
    button.addEventListener("click", () => {
      if (!this.#hidden.delete(name)) this.#hidden.add(name);
      button.setAttribute("aria-pressed", String(!this.#hidden.has(name)));
      this.#lines.forEach((line, i) => line.name === name && this.#show(i));
    });
    return button;
  }

  // The values under the cursor, sorted: of each line at its point that is nearest.
  #showValues(plot) {
    const { left, top } = plot.cursor;
    const at = plot.posToVal(left, "x");
    const width = plot.bbox.width / devicePixelRatio; // asking the element would lay out the page
    const [first, last] = [0, width].map((edge) => plot.posToVal(edge, "x"));
    const points = this.#lines.flatMap((_, owner) => {
      const candidates = this.#isHidden(owner) ? [] : this.#parts[owner].filter((part) => !part.isBehind).flatMap((part) => {
        const values = part.smooth ?? part.y;
        const i = nearest(part.x, values, at);
        const x = part.x[i];
        return x >= first && x <= last ? [{ owner, x, value: values[i], about: aboutOf(part, i), away: Math.abs(x - at) }] : [];
      });
      return candidates.sort((a, b) => a.away - b.away).slice(0, 1);
    });
    this.#values.hidden = left < 0 || !points.length;
    if (this.#values.hidden) return this.#hover(-1);
    const fromCursor = ({ value }) => Math.abs(plot.valToPos(value, "y") - top);
    points.sort((a, b) => fromCursor(a) - fromCursor(b));
    const [closest] = points;
    this.#hover(fromCursor(closest) < NEAR_PX ? closest.owner : -1);
    const shown = points.slice(0, MAX_VALUES).sort((a, b) => b.value - a.value);
    const isOne = this.#lines.length === 1;
    const suffix = this.#axes.ySuffix ?? "";
    const rows = [
      { owner: -1, name: `${this.#axes.x ?? ""} ${number(closest.x, 6)}`, text: "" },
      ...shown.map(({ owner, value, about }) => ({
        owner,
        name: isOne ? "" : this.#lines[owner].name,
        text: number(value, 5) + suffix + about,
      })),
    ];
    const make = (/** @type {typeof rows[number]} */ { owner }) => h("div", {}, owner >= 0 && sample(this.#lines[owner]), h("bdi"), h("b"));
    reconcile(this.#values, rows, ({ owner }) => owner, make, (row, { owner, name, text }) => {
      row.toggleAttribute("data-nearest", owner === closest.owner);
      setText(row.querySelector("bdi"), name);
      setText(row.querySelector("b"), text);
    });
    const isRight = left > width / 2;
    this.#values.style.left = isRight ? "auto" : `${left + BESIDE_PX}px`;
    this.#values.style.right = isRight ? `${width - left + BESIDE_PX}px` : "auto";
  }

  #hover(/** @type {number} */ owner) {
    if (owner === this.#hovered) return;
    this.#hovered = owner;
    this.onHover(this.#lines[owner]?.keys ?? []);
  }
}

// How sure a mean is, and of how many runs.
function aboutOf(/** @type {Part} */ { y, highs, counts }, /** @type {number} */ i) {
  if (!counts) return "";
  const half = highs[i] === null ? "" : ` ± ${number(highs[i] - y[i], 3)}`;
  return `${half} (n = ${counts[i]})`;
}
