// Charts of lines, drawn by uPlot: with a legend, zoom, and the values under the cursor.

import uPlot from "../vendor/uPlot.esm.js";
import { h, reconcile, setText, svg } from "./dom.js";
import { number } from "./format.js";
import { drawOver, plotOf, styleOf } from "./plot.js";
import * as theme from "./theme.js";

/** @import { Axes, Line } from "./plot.js" */

// Of more lines, the values of those are shown that are next to the cursor.
const MAX_VALUES = 20;
const MIN_ZOOM_PX = 5;
const BESIDE_PX = 14;
const DASHES = { solid: "none", dash: "5 3", dot: "1.5 2.5" };

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
 * A chart of lines in `element`. Dragging zooms, a double click shows all again, and the entries of
 * the legend hide and show lines. Drawing again keeps all this, unless the axes are others.
 */
export class Chart {
  #plot = null;
  /** @type {Line[]} */
  #lines = [];
  /** @type {Axes} */
  #axes = {};
  #owners = [];
  #looks = "";
  #hidden = new Set();
  #isZoomed = false;
  #legend = h("div", { class: "legend", role: "group", "aria-label": "Shown lines" });
  #values = h("div", { class: "chart-values", hidden: true });

  /**
   * @param {HTMLElement} element
   * @param {string} label its description for screen readers
   */
  constructor(element, label) {
    this.label = label;
    this.place = h("div", { class: "chart-plot", role: "img", "aria-label": label });
    element.classList.add("chart");
    element.append(this.place, this.#legend);
    theme.onChange(() => this.#plot && this.#update()); // the colours are a part of its looks
    new ResizeObserver(() => this.#follow()).observe(this.place);
  }

  /** Draw lines. */
  draw(/** @type {Line[]} */ lines, /** @type {Axes} */ axes = {}) {
    const isOther = axes.x !== this.#axes.x || axes.xType !== this.#axes.xType || axes.yType !== this.#axes.yType;
    if (isOther) this.#isZoomed = false;
    this.#lines = lines.map((line, i) => ({ ...styleOf(i), ...line }));
    this.#axes = axes;
    const names = lines.map(({ name }) => name).join(", ");
    const over = [axes.y, "by", axes.x].filter(Boolean).join(" ");
    this.place.setAttribute("aria-label", `${this.label}: ${names}; ${over}`);
    this.#showLegend();
    this.#update();
  }

  // A chart that looks as before is given the new columns alone, so that nothing flickers.
  #update() {
    if (!this.place.clientWidth) return; // it is drawn when it is shown
    const { options, data, owners } = plotOf(this.#lines, this.#axes);
    const { xTicks, ySuffix } = this.#axes;
    const looks = JSON.stringify([options, owners, xTicks, ySuffix]);
    this.#owners = owners;
    if (this.#plot && looks === this.#looks) {
      this.#plot.setData(data, !this.#isZoomed);
      if (this.#isZoomed) this.#plot.redraw();
      return;
    }
    const { x, y } = this.#plot?.scales ?? {};
    this.#plot?.destroy();
    this.#looks = looks;
    this.#plot = new uPlot({ ...this.#size(), ...options, ...this.#behaviour() }, data, this.place);
    this.#plot.over.append(this.#values);
    for (const i of this.#lines.keys()) if (this.#isHidden(i)) this.#show(i);
    if (!this.#isZoomed) return;
    this.#plot.setScale("x", { min: x.min, max: x.max });
    this.#plot.setScale("y", { min: y.min, max: y.max });
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
        drag: { x: true, y: true, uni: 24, dist: MIN_ZOOM_PX },
        bind: {
          dblclick: (_plot, _target, handle) => (event) => {
            this.#isZoomed = false;
            handle(event);
          },
        },
      },
      hooks: {
        draw: [(plot) => drawOver(plot, this.#lines, this.#axes, (i) => !this.#isHidden(i))],
        setCursor: [(plot) => this.#showValues(plot)],
        setSelect: [({ select }) => (this.#isZoomed ||= select.width > 0 || select.height > 0)],
      },
    };
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
    const entries = this.#lines.length > 1 ? this.#lines : [];
    const keyOf = (/** @type {Line} */ { name, colour, dash }) => [name, colour, dash].join(" ");
    reconcile(this.#legend, entries, keyOf, (entry) => this.#makeEntry(entry));
  }

  #makeEntry(/** @type {Line} */ { name, colour, dash }) {
    const button = h(
      "button",
      { type: "button", class: "quiet legend-entry", "aria-pressed": String(!this.#hidden.has(name)), title: name },
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
    const { left, top, idxs } = plot.cursor;
    const found = new Map();
    this.#owners.forEach((owner, i) => {
      const value = idxs?.[i] == null ? null : plot.data[i][idxs[i]];
      if (!(owner >= 0) || value == null || this.#isHidden(owner)) return;
      const away = Math.abs(plot.data[0][idxs[i]] - plot.posToVal(left, "x"));
      if (!(found.get(owner)?.away <= away)) found.set(owner, { owner, value, away, x: plot.data[0][idxs[i]] });
    });
    this.#values.hidden = left < 0 || !found.size;
    if (this.#values.hidden) return;
    const fromCursor = ({ value }) => Math.abs(plot.valToPos(value, "y") - top);
    const nearest = [...found.values()].sort((a, b) => fromCursor(a) - fromCursor(b));
    const shown = nearest.slice(0, MAX_VALUES).sort((a, b) => b.value - a.value);
    const isOne = this.#lines.length === 1;
    const suffix = this.#axes.ySuffix ?? "";
    const rows = [
      { owner: -1, name: `${this.#axes.x ?? ""} ${number(nearest[0].x, 6)}`, text: "" },
      ...shown.map(({ owner, value }) => ({
        owner,
        name: isOne ? "" : this.#lines[owner].name,
        text: number(value, 5) + suffix,
      })),
    ];
    const make = (/** @type {typeof rows[number]} */ { owner }) => h("div", {}, owner >= 0 && sample(this.#lines[owner]), h("span"), h("b"));
    reconcile(this.#values, rows, ({ owner }) => owner, make, (row, { owner, name, text }) => {
      row.toggleAttribute("data-nearest", owner === nearest[0].owner);
      setText(row.querySelector("span"), name);
      setText(row.querySelector("b"), text);
    });
    const isRight = left > plot.over.clientWidth / 2;
    this.#values.style.left = isRight ? "auto" : `${left + BESIDE_PX}px`;
    this.#values.style.right = isRight ? `${plot.over.clientWidth - left + BESIDE_PX}px` : "auto";
  }
}
