// A canvas over a shared horizontal axis: it zooms and shows the cursor together with the charts.

import { h } from "../dom.js";
import { tick } from "../plot.js";
import * as theme from "../theme.js";
import { onPoint, onZoom, pointAt, zoomOf, zoomTo } from "../zoom.js";

/**
 * @import { Axis } from "./curves.js"
 *
 * What to draw on: `x` gives the pixel of a place on the axis, `top` is above the lanes.
 * @typedef {{ ctx: CanvasRenderingContext2D, x: (place: number) => number, left: number,
 *   right: number, height: number }} Surface
 */

// The same as of charts in a stack, so that their axes are above each other.
const [LEFT_PX, RIGHT_PX, AXIS_PX] = [56, 10, 20];
const MIN_ZOOM_PX = 5;
const TICK_EVERY_PX = 110;
const ZOOM_STEP = 2;
const MOVE_PARTS = 100;
export const FONT = "11px Inter, system-ui, sans-serif";

/** @returns {number[]} round numbers between two values, about so many. */
export function ticksOf(/** @type {[number, number]} */ [from, to], /** @type {number} */ count) {
  const least = (to - from) / Math.max(1, count);
  if (!(least > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= least * 0.999);
  const first = Math.ceil(from / step - 1e-9);
  return Array.from({ length: Math.floor(to / step + 1e-9) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/**
 * A canvas with a cursor. Dragging zooms all charts over its axis, a double click shows all again;
 * arrow keys move the cursor, `+` and `-` zoom.
 */
export class TimePlot {
  /** @type {Axis | null} */
  axis = null;
  /** @type {[number, number]} */
  #extent = [0, 1];
  /** @type {number | null} */
  #place = null;
  #height = 0;
  #cursor = h("div", { class: "time-cursor", hidden: true });
  #selected = h("div", { class: "time-selected", hidden: true });
  #pressedAt = NaN;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {(surface: Surface) => void} draw
   * @param {(place: number | null, y: number | null) => void} onPlace called where the cursor is; `y` is
   *   a share of the height, null without a pointer
   * @param {(down: number) => void} [onRow] called for arrow keys up and down
   */
  constructor(canvas, draw, onPlace, onRow = () => {}) {
    this.canvas = canvas;
    this.draw = draw;
    this.onPlace = onPlace;
    this.onRow = onRow;
    canvas.parentElement.append(this.#cursor, this.#selected);
    canvas.addEventListener("pointerdown", (event) => this.#press(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#release(event));
    canvas.addEventListener("pointerleave", () => this.#point(null, null));
    canvas.addEventListener("dblclick", () => this.zoom(null));
    canvas.addEventListener("keydown", (event) => this.#pressKey(event));
    onPoint(this, () => this.axis?.shared, (place) => this.#set(place, null));
    onZoom(() => this.redraw());
    theme.onChange(() => this.redraw());
    new ResizeObserver(() => this.redraw()).observe(canvas);
  }

  /** Show a range of an axis, in a canvas of that height. */
  show(/** @type {Axis} */ axis, /** @type {[number, number]} */ extent, /** @type {number} */ height) {
    this.axis = axis;
    this.#extent = extent;
    this.#height = height;
    this.redraw();
  }

  /** @returns {[number, number]} the range that is shown */
  get window() {
    return (this.axis && zoomOf(this.axis.shared)) ?? this.#extent;
  }

  get isZoomed() {
    return Boolean(this.axis && zoomOf(this.axis.shared));
  }

  zoom(/** @type {[number, number] | null} */ range) {
    if (this.axis) zoomTo(range, this.axis.shared);
  }

  redraw() {
    const { canvas } = this;
    const width = canvas.clientWidth;
    if (!this.axis || !width) return; // it is drawn when it is shown
    const ratio = devicePixelRatio;
    canvas.style.height = `${this.#height + AXIS_PX}px`;
    canvas.width = width * ratio;
    canvas.height = (this.#height + AXIS_PX) * ratio;
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    const [left, right] = [LEFT_PX, width - RIGHT_PX];
    this.#drawAxis(ctx, left, right);
    this.draw({ ctx, x: (place) => this.#xOf(place), left, right, height: this.#height });
    this.#set(this.#place, null);
  }

  #drawAxis(ctx, left, right) {
    ctx.font = FONT;
    ctx.fillStyle = theme.colour("--soft");
    ctx.strokeStyle = theme.colour("--rule");
    ctx.textBaseline = "top";
    ctx.textAlign = "right";
    const title = this.axis.title;
    ctx.fillText(title, right, this.#height + 6);
    const free = right - ctx.measureText(title).width - 24;
    ctx.textAlign = "center";
    for (const place of ticksOf(this.window, (right - left) / TICK_EVERY_PX)) {
      const x = Math.round(this.#xOf(place)) + 0.5;
      if (x < free) ctx.fillText(tick(place), x, this.#height + 6);
      ctx.beginPath();
      ctx.moveTo(x, 0);
      ctx.lineTo(x, this.#height + 3);
      ctx.stroke();
    }
  }

  #xOf(/** @type {number} */ place) {
    const [from, to] = this.window;
    const width = this.canvas.clientWidth - LEFT_PX - RIGHT_PX;
    return LEFT_PX + ((place - from) / (to - from)) * width;
  }

  #placeAt(/** @type {number} */ x) {
    const [from, to] = this.window;
    const width = this.canvas.clientWidth - LEFT_PX - RIGHT_PX;
    return from + (Math.max(0, Math.min(width, x - LEFT_PX)) / width) * (to - from);
  }

  #press(/** @type {PointerEvent} */ event) {
    if (event.button || event.pointerType === "touch") return; // a touch scrolls the page
    this.#pressedAt = event.offsetX;
    this.canvas.setPointerCapture(event.pointerId);
  }

  #move(/** @type {PointerEvent} */ { offsetX, offsetY }) {
    this.#point(this.#placeAt(offsetX), offsetY / this.#height);
    const [from, to] = [this.#pressedAt, offsetX].sort((a, b) => a - b);
    this.#selected.hidden = !(to - from >= MIN_ZOOM_PX);
    this.#selected.style.left = `${from}px`;
    this.#selected.style.width = `${to - from}px`;
    this.#selected.style.height = `${this.#height}px`;
  }

  #release(/** @type {PointerEvent} */ { offsetX }) {
    const [from, to] = [this.#pressedAt, offsetX].sort((a, b) => a - b);
    this.#pressedAt = NaN;
    this.#selected.hidden = true;
    if (to - from >= MIN_ZOOM_PX) this.zoom([this.#placeAt(from), this.#placeAt(to)]);
  }

  #pressKey(/** @type {KeyboardEvent} */ event) {
    const [from, to] = this.window;
    const at = this.#place ?? (from + to) / 2;
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const factor = { "+": 1 / ZOOM_STEP, "-": ZOOM_STEP }[event.key];
    if (move) this.#point(Math.max(from, Math.min(to, at + (move * (to - from)) / MOVE_PARTS)), null);
    else if (down) this.onRow(down);
    else if (factor) this.#zoomBy(factor, at);
    else return;
    event.preventDefault();
  }

  #zoomBy(/** @type {number} */ factor, /** @type {number} */ at) {
    const [from, to] = this.window;
    const range = /** @type {[number, number]} */ ([from, to].map((end) => at + (end - at) * factor));
    this.zoom(range[0] <= this.#extent[0] && range[1] >= this.#extent[1] ? null : range);
  }

  #point(/** @type {number | null} */ place, /** @type {number | null} */ y) {
    if (!this.axis) return;
    this.#set(place, y);
    pointAt(place, this.axis.shared, this);
  }

  #set(/** @type {number | null} */ place, /** @type {number | null} */ y) {
    this.#place = place;
    const [from, to] = this.window;
    this.#cursor.hidden = place === null || place < from || place > to;
    if (!this.#cursor.hidden) {
      this.#cursor.style.left = `${this.#xOf(place)}px`;
      this.#cursor.style.height = `${this.#height}px`;
    }
    this.onPlace(this.#cursor.hidden ? null : place, y);
  }
}
