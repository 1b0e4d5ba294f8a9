// Input of uPlot for lines: smoothed columns, series, scales and axes, in the colours of the theme.

import uPlot from "../vendor/uPlot.esm.js";
import * as theme from "./theme.js";

/** @import { Shared } from "./look.js" */

const LINE_COLOURS = 8;
const DASHES = /** @type {const} */ (["solid", "dash", "dot"]);
const CANVAS_DASHES = { solid: [], dash: [7, 4], dot: [2, 3] };
// Beyond this value, the ends of an axis are not finite.
const MAX_VALUE = 1e300;
// From these on an axis writes exponents.
const [MIN_PLAIN, MAX_PLAIN] = [1e-4, 1e15];
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 5 });
export const FONT = "11px Inter, system-ui, sans-serif";
const [LETTER_PX, TEXT_PX, AXIS_GAP_PX, X_AXIS_PX] = [7, 14, 14, 28];
// Charts in a stack have the same left edge for all values.
const [STACKED_Y_PX, BARE_X_PX, DOT_PX] = [56, 5, 3];
const PAD = 0.06;
const LOG_PAD = 1.15;
const POINT_PX = 5;
// The opacities of bands, and of curves behind their smoothed curves.
const [BAND, PALE] = ["33", "4d"];

/**
 * A curve. `lows` and `highs` draw a band around it, unless they equal `y`. With `smooth` it is drawn,
 * with `y` pale behind it and without a band.
 * A mean has the `counts` of its curves at each point. Curves `behind` it are pale: the curves
 * of a mean, or the discarded steps of a restarted run. A line with its `own` scale fills the height.
 * A colour is a custom property of the style sheet, a `hint` the tooltip in the legend. `keys` are the
 * ids of the runs that it shows.
 * @typedef {{
 *   name: string, x: number[], y: (number | null)[], lows?: number[], highs?: number[],
 *   smooth?: number[], counts?: number[], behind?: { x: number[], y: (number | null)[] }[],
 *   colour?: string, dash?: "solid" | "dash" | "dot", points?: boolean, own?: boolean, hint?: string, keys?: number[]
 * }} Line
 */

/**
 * Titles and kinds of the axes; `marks` are horizontal lines such as a target, with a dot where the
 * target was reached; `moments` are vertical lines such as a restart; `bands` mark where something is
 * wrong. Lines are smoothed with a half-life of that share of the axis. Charts that share an axis are
 * zoomed together. Charts of a stack share the cursor and their `extent` too, and only the last one
 * labels the horizontal axis. A bare chart has its titles elsewhere. A chart with `paint` has no lines,
 * but the range `yRange`, and a `label` for screen readers.
 * @typedef {{
 *   x?: string, y?: string, xType?: "linear" | "log", yType?: "linear" | "log",
 *   xTicks?: number[], ySuffix?: string, fromZero?: boolean, smoothing?: number, xSuffix?: string, isBare?: boolean,
 *   shared?: Shared, stacked?: "above" | "last", extent?: [number, number],
 *   marks?: { y: number, text: string, colour?: string, at?: number }[], moments?: { x: number, text: string }[],
 *   bands?: { x: number, to: number, text: string }[],
 *   paint?: (surface: Surface) => void, yRange?: [number, number], yTicks?: number[], label?: string
 * }} Axes
 */

/**
 * The zoomed range on each axis, or null; `extent` is the whole horizontal axis.
 * @typedef {{ x: [number, number] | null, y: [number, number] | null, extent: [number, number] }} View
 */

/**
 * The area of a chart to paint on, in pixels from its left upper corner; `inside` cuts off what is
 * drawn outside of it.
 * @typedef {{ ctx: CanvasRenderingContext2D, width: number, height: number, x: (place: number) => number,
 *   y: (value: number) => number, inside: (draw: () => void) => void }} Surface
 */

/** @returns {{ colour: string, dash: "solid" | "dash" | "dot" }} the style of the i-th curve. */
export function styleOf(/** @type {number} */ i) {
  return {
    colour: `--series-${i % LINE_COLOURS}`,
    dash: DASHES[Math.floor(i / LINE_COLOURS) % DASHES.length],
  };
}

/** @returns {string} a value as an axis writes it: `0.25`, `12K`, `1e-7`. */
export function tick(/** @type {number} */ value) {
  const size = Math.abs(value);
  const isPlain = size === 0 || (size >= MIN_PLAIN && size < MAX_PLAIN);
  return isPlain ? COMPACT.format(value) : Number(value.toPrecision(5)).toExponential();
}

/** @returns {[number, number]} the smallest and the largest x; infinite for empty lines. */
export function extentOf(/** @type {number[][]} */ columns, isLog = false) {
  const least = isLog ? 0 : -Infinity;
  let [low, high] = [Infinity, -Infinity];
  for (const x of columns) {
    for (let i = 0; i < x.length; i++) {
      const at = x[i];
      if (at < low && at > least) low = at;
      if (at > high && at > least && at < Infinity) high = at;
    }
  }
  return [low, high];
}

/**
 * Smooth by exponential weights: a value that is `halfLife` further back on the axis weighs half as
 * much, however densely there are values. The weights are divided by their sum, so that the first
 * value has no extra weight. Smoothing restarts where x decreases, as after a restart of the run.
 * NaN is left out, and stays NaN. The half-life is in units of x, or of its logarithm.
 */
export function smooth(/** @type {number[]} */ x, /** @type {(number | null)[]} */ y, /** @type {number} */ halfLife, isLog = false) {
  const rate = Math.LN2 / halfLife;
  const means = new Array(y.length);
  let [total, weight, last] = [0, 0, NaN];
  // Loops of plain numbers: a function for each of millions of values takes ten times as long.
  for (let i = 0; i < y.length; i++) {
    const value = y[i];
    const at = isLog ? Math.log(x[i]) : x[i];
    means[i] = NaN;
    if (!isFinite(at) || value === null || !isFinite(value)) continue;
    const share = at >= last ? Math.exp(-rate * (at - last)) : 0;
    total = total * share + value;
    weight = weight * share + 1;
    last = at;
    means[i] = total / weight;
  }
  return means;
}

/** @returns {{ smooth?: number[] }} a line smoothed with the half-life of the axes; nothing without one. */
export function smoothed(/** @type {Pick<Line, "x" | "y">} */ { x, y }, /** @type {Axes} */ axes, /** @type {number[]} */ extent) {
  const isLog = axes.xType === "log";
  const [from, to] = isLog ? extent.map(Math.log) : extent;
  return axes.smoothing && to > from ? { smooth: smooth(x, y, axes.smoothing * (to - from), isLog) } : {};
}

/**
 * Divide a line into parts at the moments of the axes, and where x does not increase, as when a run
 * restarted; and leave out points that the axes cannot show.
 */
export function partsOf(/** @type {Omit<Line, "name">} */ line, /** @type {Axes} */ { xType, yType, moments = [] }) {
  const { x, y, lows = y, highs = y, smooth = y } = line;
  const placeOf = (value) => (drawable(value) && (yType !== "log" || value > 0) ? value : null);
  const columns = Object.entries({ y, lows, highs, smooth });
  /** @type {Record<"x" | "y" | "lows" | "highs" | "smooth", (number | null)[]>[]} */
  const parts = [];
  let last = NaN;
  x.forEach((at, i) => {
    if (!drawable(at) || (xType === "log" && at <= 0)) return;
    const isOther = !(at > last) || moments.some((moment) => last < moment.x && moment.x <= at);
    if (isOther) parts.push({ x: [], y: [], lows: [], highs: [], smooth: [] });
    const part = parts.at(-1);
    part.x.push(at);
    for (const [name, column] of columns) part[name].push(placeOf(column[i]));
    last = at;
  });
  return parts;
}

/**
 * @returns {{ options: object, data: object }} what uPlot draws. Each series has the index of its line
 *   as `owner`, and `isCurve` unless it is the edge of a band or a pale curve.
 */
export function plotOf(/** @type {Line[]} */ lines, /** @type {Axes} */ axes, /** @type {View} */ view) {
  const tables = [];
  /** @type {object[]} */
  const series = [{}];
  const bands = [];
  lines.forEach((line, owner) => {
    const colour = theme.colour(line.colour);
    const pale = { owner, scale: "y", stroke: faded(colour, PALE), width: 1, points: { show: false } };
    const edge = { owner, scale: "y", width: 0, points: { show: false } };
    const hasBand = !line.smooth && line.highs?.some((high, j) => !Object.is(high, line.y[j]));
    for (const { x, y } of (line.behind ?? []).flatMap((curve) => partsOf(curve, axes))) {
      series.push(pale);
      tables.push([x, y]);
    }
    for (const { x, y, lows, highs, smooth } of partsOf(line, axes)) {
      if (hasBand) bands.push({ series: [series.length, series.length + 1], fill: faded(colour, BAND) });
      series.push(...(hasBand ? [edge, edge] : []), ...(line.smooth ? [pale] : []), {
        owner,
        isCurve: true,
        scale: line.own ? "own" : "y",
        stroke: colour,
        width: 1.6,
        dash: CANVAS_DASHES[line.dash],
        points: { show: Boolean(line.points), size: POINT_PX, fill: colour },
      });
      tables.push([x, ...(hasBand ? [highs, lows] : []), ...(line.smooth ? [y] : []), smooth]);
    }
  });
  const data = tables.length ? uPlot.join(tables) : [[]];
  return { options: { ...optionsOf(lines, axes, view), series, bands }, data };
}

/** @returns {boolean} whether a logarithmic axis writes a value: it begins between two ticks. */
export const isRound = (/** @type {number} */ value) => Math.abs(Number(value.toPrecision(1)) / value - 1) < 1e-6;

function optionsOf(/** @type {Line[]} */ lines, /** @type {Axes} */ axes, /** @type {View} */ view) {
  const [isLogX, isLogY] = [axes.xType === "log", axes.yType === "log"];
  const { stacked, isBare } = axes;
  const isAbove = stacked === "above";
  const marks = (axes.marks ?? []).map(({ y }) => y);
  const end = (soft) => (Number.isFinite(soft) ? { pad: PAD, soft, mode: 1 } : { pad: PAD });
  const padding = { min: end(Math.min(...marks, axes.fromZero ? 0 : Infinity)), max: end(Math.max(...marks)) };
  const linear = (room) => (_plot, low, high) => (low === null ? [null, null] : uPlot.rangeNum(low, high, room));
  // Without going on to whole powers of ten.
  const around = (_plot, low, high) => (low > 0 ? [low / LOG_PAD, high * LOG_PAD] : [0.1, 1]);
  // Points at the ends are whole, and one alone is in the middle.
  const part = !stacked && lines.some((line) => line.points) ? PAD : 0;
  const roomOf = (from, to) => (from < to ? part * (to - from) : 1);
  const rangeX = (plot, [from, to]) => (isLogX ? around(plot, from, to) : [from - roomOf(from, to), to + roomOf(from, to)]);
  const rangeY = isLogY ? around : linear(padding);
  return {
    legend: { show: false },
    ...(stacked && { padding: [axes.paint ? 0 : 8, null, null, null] }),
    scales: {
      x: { time: false, distr: isLogX ? 3 : 1, range: (plot) => view.x ?? rangeX(plot, view.extent) },
      y: { distr: isLogY ? 3 : 1, range: (...args) => view.y ?? axes.yRange ?? rangeY(...args) },
      ...(lines.some((line) => line.own) && { own: { range: linear({ min: end(NaN), max: end(NaN) }) } }),
    },
    axes: [
      {
        ...axisOf(isAbove || isBare ? "" : axes.x),
        size: isAbove ? BARE_X_PX : X_AXIS_PX,
        ...(axes.xTicks && { splits: () => axes.xTicks, filter: (_, splits) => splits }),
        values: (_, splits) => splits.map((value, i) => (value === null || isAbove ? "" : tick(value) + (i === splits.length - 1 ? (axes.xSuffix ?? "") : ""))),
      },
      {
        ...axisOf(stacked || isBare ? "" : axes.y),
        ...(stacked && { space: 24 }),
        ...(axes.yTicks && { splits: () => axes.yTicks }),
        size: (_, values) => stacked ? STACKED_Y_PX : AXIS_GAP_PX + LETTER_PX * Math.max(0, ...(values ?? []).map((text) => text.length)),
        values: (_, splits) => splits.map((value) => (value === null || (isLogY && !isRound(value)) ? "" : tick(value) + (axes.ySuffix ?? ""))),
      },
    ],
  };
}

function axisOf(title) {
  const rule = { stroke: theme.colour("--rule"), width: 1 };
  const fonts = { font: FONT, labelFont: FONT };
  const label = title ? { label: title, labelSize: 20 } : {};
  return { ...fonts, ...label, stroke: theme.colour("--soft"), grid: rule, ticks: { ...rule, size: 4 } };
}

/** Draw a dot. */
export function fillDot(/** @type {CanvasRenderingContext2D} */ ctx, /** @type {number} */ x, /** @type {number} */ y) {
  ctx.beginPath();
  ctx.arc(x, y, DOT_PX, 0, 2 * Math.PI);
  ctx.fill();
}

/** Paint a chart's marks, moments and bands, and the drawing of its axes' `paint`. */
export function paintOn(plot, /** @type {Axes} */ axes) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  const [width, height] = [bbox.width / ratio, bbox.height / ratio];
  const inside = (/** @type {() => void} */ paint) => {
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, 0, width, height);
    ctx.clip();
    paint();
    ctx.restore();
  };
  ctx.save();
  ctx.translate(bbox.left, bbox.top);
  ctx.scale(ratio, ratio);
  ctx.font = FONT;
  ctx.lineWidth = 1;
  const [x, y] = ["x", "y"].map((scale) => (/** @type {number} */ value) => plot.valToPos(value, scale));
  const surface = { ctx, width, height, x, y, inside };
  axes.paint?.(surface);
  inside(() => drawOver(surface, axes));
  ctx.restore();
}

/** Draw a line through points. */
export function strokeLine(/** @type {CanvasRenderingContext2D} */ ctx, /** @type {number[][]} */ points, dash = []) {
  ctx.setLineDash(dash);
  ctx.beginPath();
  points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.stroke();
}

function drawOver(/** @type {Surface} */ { ctx, width, height, ...to }, /** @type {Axes} */ axes) {
  // In the middle of a pixel, a line is sharp.
  const [xOf, yOf] = [to.x, to.y].map((toPixel) => (/** @type {number} */ value) => Math.round(toPixel(value)) + 0.5);
  let [above, taken] = [-Infinity, 0];
  for (const { y, text, colour = "--soft", at } of (axes.marks ?? []).toSorted((a, b) => b.y - a.y)) {
    const level = yOf(y);
    // Labels of close targets follow each other, instead of lying on each other.
    const start = level - above < TEXT_PX ? taken : 4;
    [above, taken] = [level, start + ctx.measureText(text).width + 8];
    ctx.strokeStyle = ctx.fillStyle = theme.colour(colour);
    strokeLine(ctx, [[0, level], [width, level]], [6, 4]);
    // On the left, because most curves reach the target on the right.
    const isEarly = xOf(at) < width / 2;
    ctx.textAlign = isEarly ? "right" : "left";
    ctx.textBaseline = level < TEXT_PX ? "top" : "bottom";
    ctx.fillText(text, isEarly ? width - start : start, level);
    if (Number.isFinite(at)) fillDot(ctx, xOf(at), level);
  }
  ctx.strokeStyle = ctx.fillStyle = theme.colour("--soft");
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  let free = -Infinity;
  for (const { x, text } of axes.moments ?? []) {
    const left = xOf(x);
    strokeLine(ctx, [[left, 0], [left, height]], [2, 3]);
    if (left < free) continue;
    ctx.fillText(text, left + 3, 0);
    free = left + ctx.measureText(text).width + 6;
  }
  for (const { x, to: end, text } of axes.bands ?? []) {
    ctx.fillText(text, xOf(x) + 3, 0);
    ctx.save();
    ctx.globalAlpha = 0.15;
    ctx.fillStyle = theme.colour("--bad");
    ctx.fillRect(xOf(x), 0, xOf(end) - xOf(x), height);
    ctx.restore();
  }
}

function faded(colour, /** @type {string} */ opacity) {
  return /^#[0-9a-f]{6}$/i.test(colour) ? colour + opacity : "transparent";
}

function drawable(/** @type {unknown} */ value) {
  return typeof value === "number" && Math.abs(value) < MAX_VALUE;
}
