// Input of uPlot for lines: columns, series, scales and axes, in the colours of the theme.

import uPlot from "../vendor/uPlot.esm.js";
import { lowerBound, thin } from "./lines.js";
import * as theme from "./theme.js";

/**
 * @import { Part } from "./lines.js"
 * @import { Shared } from "./zoom.js"
 */

const LINE_COLOURS = 8;
const DASHES = /** @type {const} */ (["solid", "dash", "dot"]);
const CANVAS_DASHES = { solid: [], dash: [7, 4], dot: [2, 3] };
// Beyond this value, the ends of an axis are not finite.
const MAX_VALUE = 1e300;
// From these on an axis writes exponents.
const [MIN_PLAIN, MAX_PLAIN] = [1e-4, 1e15];
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 5 });
const FONT = "11px Inter, system-ui, sans-serif";
const [LETTER_PX, AXIS_GAP_PX, X_AXIS_PX] = [7, 14, 28];
// Charts in a stack have the same left edge, whatever their values.
const [STACKED_Y_PX, BARE_X_PX, DOT_PX] = [56, 5, 4];
const PAD = 0.06;
const LOG_PAD = 1.15;
const [POINT_PX, SMALL_POINT_PX] = [6, 4];
// With more points for each pixel of the width, lines are thinned.
const DENSE = 4;
const WHISKER_PX = 4;
// The opacities of bands, and of curves behind their smoothed ones.
const [BAND, PALE] = ["33", "4d"];

/**
 * A curve. `lows` and `highs` draw a band around it, unless they equal `y`, or whiskers of its
 * points, if it shows these. With `smooth` it is drawn, with `y` pale behind it and without a band.
 * A mean has the `counts` of its curves at each point. What is `behind` it is drawn pale: the curves
 * of a mean, or what a restarted run discarded.
 * A colour is a custom property of the style sheet, a `hint` the tooltip in the legend. `keys` are the
 * ids of the runs that it shows.
 * @typedef {{
 *   name: string, x: number[], y: (number | null)[], lows?: number[], highs?: number[],
 *   smooth?: number[], counts?: number[], behind?: { x: number[], y: (number | null)[] }[],
 *   colour?: string, dash?: "solid" | "dash" | "dot", points?: boolean, step?: boolean,
 *   hint?: string, keys?: number[]
 * }} Line
 */

/**
 * Titles and kinds of the axes; `marks` are horizontal lines such as a target, with a dot where the
 * target was reached; `moments` are vertical lines such as a restart; `bands` mark where something is
 * wrong. Lines are smoothed with a half-life of that share of the axis. Charts that share an axis are
 * zoomed together. Charts of a stack share the cursor and their `extent` too, and only the last one
 * labels the horizontal axis. A bare chart has its titles elsewhere.
 * @typedef {{
 *   x?: string, y?: string, xType?: "linear" | "log", yType?: "linear" | "log",
 *   xTicks?: number[], ySuffix?: string, fromZero?: boolean, smoothing?: number, xSuffix?: string, isBare?: boolean,
 *   shared?: Shared, stacked?: "above" | "last", extent?: [number, number],
 *   marks?: { y: number, text: string, colour?: string, at?: number }[], moments?: { x: number, text: string }[],
 *   bands?: { x: number, to: number, text: string }[]
 * }} Axes
 */

/**
 * What is shown of the axes: all of them, or what was zoomed to. `isWhole` if the extent is shown.
 * @typedef {{ x: [number, number] | null, y: [number, number] | null, extent: [number, number],
 *   isWhole: boolean, pixels: number }} View
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

/**
 * Divide a line into parts in which x increases, as that of a run that began again does not, and
 * leave out what has no place on the axes.
 * @returns {Part[]}
 */
export function partsOf(/** @type {Line} */ line, /** @type {Axes} */ axes) {
  const { name, x, y, lows = y, highs = y, smooth, counts, behind = [] } = line;
  const placeOf = (value) => (drawable(value) && (axes.yType !== "log" || value > 0) ? value : null);
  /** @type {Part[]} */
  const parts = behind.flatMap((curve) => partsOf({ name, ...curve }, axes).map((part) => ({ ...part, isBehind: true })));
  if (isOnePart(line, axes)) return [...parts, { x, y, lows, highs, smooth, counts }];
  let last = NaN;
  x.forEach((at, i) => {
    if (!drawable(at) || (axes.xType === "log" && at <= 0)) return;
    // At the time of a gap there is also the next point.
    if (!(at > last || (at === last && parts.at(-1).y.at(-1) !== null)))
      parts.push({ x: [], y: [], lows: [], highs: [], ...(smooth && { smooth: [] }), ...(counts && { counts: [] }) });
    const part = parts.at(-1);
    part.x.push(at);
    part.y.push(placeOf(y[i]));
    part.lows.push(placeOf(lows[i]));
    part.highs.push(placeOf(highs[i]));
    part.smooth?.push(placeOf(smooth[i]));
    part.counts?.push(counts[i]);
    last = at;
  });
  return parts;
}

// Most lines are, and their columns need no copies.
function isOnePart(/** @type {Line} */ { x, y, lows = y, highs = y, smooth = y }, /** @type {Axes} */ { xType, yType }) {
  const lowest = yType === "log" ? 0 : -MAX_VALUE;
  let last = xType === "log" ? 0 : -MAX_VALUE;
  for (let i = 0; i < x.length; i++) {
    if (!(x[i] > last)) return false;
    last = x[i];
  }
  return last < MAX_VALUE && x.length > 0 && [...new Set([y, lows, highs, smooth])].every((column) => isWithin(column, lowest));
}

function isWithin(/** @type {(number | null)[]} */ column, /** @type {number} */ lowest) {
  for (let i = 0; i < column.length; i++) {
    const value = column[i];
    if (value === null || !(value > lowest && value < MAX_VALUE)) return false;
  }
  return true;
}

/**
 * @param {Line[]} lines with a colour and a dash each
 * @param {Part[][]} parts of each line
 * @param {Axes} axes
 * @param {View} view
 * @returns {{ options: object, data: object, owners: number[] }} what uPlot draws; `owners` are the
 *   lines that its series belong to, and those of bands and pale curves are negative: −1 for the
 *   first line
 */
export function plotOf(lines, parts, axes, view) {
  const tables = [];
  const series = [{}];
  const bands = [];
  const owners = [NaN];
  const thinned = thinner(parts.flat(), axes, view);
  const add = (owner, curve) => {
    owners.push(owner);
    series.push(curve);
  };
  lines.forEach((line, i) => {
    const colour = theme.colour(line.colour);
    const hasBand = !line.points && !line.smooth && line.highs?.some((high, j) => !Object.is(high, line.y[j]));
    for (const whole of parts[i]) {
      const part = line.points ? whole : thinned(whole);
      if (whole.isBehind) {
        add(-1 - i, paleOf(colour));
        tables.push([part.x, part.y]);
        continue;
      }
      const columns = [part.x];
      if (hasBand) {
        bands.push({ series: [series.length, series.length + 1], fill: faded(colour, BAND) });
        for (let edge = 0; edge < 2; edge++) add(-1 - i, { scale: "y", width: 0, points: { show: false } });
        columns.push(part.highs, part.lows);
      }
      if (part.smooth) {
        add(-1 - i, paleOf(colour));
        columns.push(part.y);
      }
      add(i, seriesOf(line, colour, axes.isBare));
      columns.push(part.smooth ?? part.y);
      tables.push(columns);
    }
  });
  const data = tables.length ? uPlot.join(tables) : [[]];
  return { options: { ...optionsOf(lines, axes, view), series, bands }, data, owners };
}

// Reduces many points to the visible ones.
function thinner(/** @type {Part[]} */ parts, /** @type {Axes} */ axes, /** @type {View} */ { x, extent, pixels }) {
  const [from, to] = x ?? extent;
  const shown = parts.map((part) => lowerBound(part.x, to) - lowerBound(part.x, from));
  const isDense = shown.reduce((total, count) => total + count, 0) > DENSE * pixels && from < to;
  const window = { from, to, pixels, isLog: axes.xType === "log" };
  return (/** @type {Part} */ part) => (isDense ? thin(part, window) : part);
}

function paleOf(colour) {
  return { scale: "y", stroke: faded(colour, PALE), width: 1, points: { show: false } };
}

function seriesOf(/** @type {Line} */ line, colour, isBare = false) {
  return {
    scale: "y",
    stroke: colour,
    width: 1.6,
    dash: CANVAS_DASHES[line.dash],
    paths: line.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
    points: { show: Boolean(line.points), size: isBare ? SMALL_POINT_PX : POINT_PX, fill: colour },
  };
}

function optionsOf(/** @type {Line[]} */ lines, /** @type {Axes} */ axes, /** @type {View} */ view) {
  const [isLogX, isLogY] = [axes.xType === "log", axes.yType === "log"];
  const marks = (axes.marks ?? []).map(({ y }) => y);
  const lowest = Math.min(...(axes.fromZero ? [0] : []), ...marks);
  const end = (soft) => (Number.isFinite(soft) ? { pad: PAD, soft, mode: 1 } : { pad: PAD });
  const padding = { min: end(lowest), max: end(Math.max(...marks)) };
  const linear = (_plot, low, high) => (low === null ? [null, null] : uPlot.rangeNum(low, high, padding));
  const isAlone = !axes.stacked;
  const isAbove = axes.stacked === "above";
  const rangeOfData = isLogX ? around : isAlone && lines.some((line) => line.points) ? padded : whole;
  const rangeX = (plot, low, high) => (view.isWhole && !isLogX ? view.extent : rangeOfData(plot, low, high));
  const rangeY = isLogY ? around : linear;
  return {
    legend: { show: false },
    ...(isAlone ? {} : { padding: [8, null, null, null] }),
    scales: {
      x: { time: false, distr: isLogX ? 3 : 1, range: (...args) => view.x ?? rangeX(...args) },
      y: { distr: isLogY ? 3 : 1, range: (...args) => view.y ?? rangeY(...args) },
    },
    axes: [
      {
        ...axisOf(isAbove || axes.isBare ? "" : axes.x),
        size: isAbove ? BARE_X_PX : X_AXIS_PX,
        ...(axes.xTicks ? { splits: () => axes.xTicks, filter: (_, splits) => splits } : {}),
        values: (_, splits) => splits.map((value, i) => (value === null || isAbove ? "" : tick(value) + (i === splits.length - 1 ? (axes.xSuffix ?? "") : ""))),
      },
      {
        ...axisOf(isAlone && !axes.isBare ? axes.y : ""),
        ...(isAlone ? {} : { space: 24 }),
        size: (_, values) => axes.stacked ? STACKED_Y_PX : AXIS_GAP_PX + LETTER_PX * Math.max(0, ...(values ?? []).map((text) => text.length)),
        values: (_, splits) => splits.map((value) => (value === null ? "" : tick(value) + (axes.ySuffix ?? ""))),
      },
    ],
  };
}

function whole(_plot, low, high) {
  return [low, high];
}

// All of it, with room for the points at both ends.
function padded(plot, low, high) {
  const [first, last] = [plot.data[0][0], plot.data[0].at(-1)];
  const room = PAD * (last - first);
  return low === first && high === last ? [low - room, high + room] : [low, high];
}

// On a logarithmic axis, without going on to whole powers of ten.
function around(_plot, low, high) {
  return low > 0 ? [low / LOG_PAD, high * LOG_PAD] : [0.1, 1];
}

function axisOf(title) {
  const rule = { stroke: theme.colour("--rule"), width: 1 };
  const fonts = { font: FONT, labelFont: FONT };
  const label = title ? { label: title, labelSize: 20 } : {};
  return { ...fonts, ...label, stroke: theme.colour("--soft"), grid: rule, ticks: { ...rule, size: 4 } };
}

/** Draw marks, moments and bands on a plot, and the whiskers of lines. */
export function drawOver(plot, /** @type {Line[]} */ lines, /** @type {Axes} */ axes, isShown) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  const [right, bottom] = [bbox.left + bbox.width, bbox.top + bbox.height];
  const at = (value, scale) => Math.round(plot.valToPos(value, scale, true)) + 0.5;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = ratio;
  ctx.textAlign = "left";
  ctx.font = FONT.replace("11", String(11 * ratio));
  const stroke = (dash, ...points) => {
    ctx.setLineDash(dash.map((size) => size * ratio));
    ctx.beginPath();
    points.forEach(([x, y], i) => (i % 2 ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
    ctx.stroke();
  };
  for (const { y, text, colour = "--soft", at: reached } of axes.marks ?? []) {
    const height = at(y, "y");
    ctx.strokeStyle = ctx.fillStyle = theme.colour(colour);
    stroke([6, 4], [bbox.left, height], [right, height]);
    // On the left, because most curves reach the target on the right.
    const isEarly = at(reached, "x") < bbox.left + bbox.width / 2;
    ctx.textAlign = isEarly ? "right" : "left";
    ctx.textBaseline = height < bbox.top + 14 * ratio ? "top" : "bottom";
    ctx.fillText(text, isEarly ? right - 4 * ratio : bbox.left + 4 * ratio, height);
    ctx.textAlign = "left";
    if (!Number.isFinite(reached)) continue;
    ctx.beginPath();
    ctx.arc(at(reached, "x"), height, DOT_PX * ratio, 0, 2 * Math.PI);
    ctx.fill();
  }
  ctx.strokeStyle = ctx.fillStyle = theme.colour("--soft");
  ctx.textBaseline = "top";
  for (const { x, text } of axes.moments ?? []) {
    stroke([2, 3], [at(x, "x"), bbox.top], [at(x, "x"), bottom]);
    ctx.fillText(text, at(x, "x") + 3 * ratio, bbox.top);
  }
  for (const { x, to, text } of axes.bands ?? []) {
    ctx.fillText(text, at(x, "x") + 3 * ratio, bbox.top);
    ctx.save();
    ctx.globalAlpha = 0.15;
    ctx.fillStyle = theme.colour("--bad");
    ctx.fillRect(at(x, "x"), bbox.top, at(to, "x") - at(x, "x"), bbox.height);
    ctx.restore();
  }
  lines.forEach(({ x, y, lows, highs, points, colour }, i) => {
    if (!points || !lows || !highs || !isShown(i)) return;
    ctx.strokeStyle = theme.colour(colour);
    x.forEach((place, j) => {
      if (![y[j], lows[j], highs[j]].every(drawable) || lows[j] === highs[j]) return;
      const [middle, low, high, half] = [at(place, "x"), at(lows[j], "y"), at(highs[j], "y"), WHISKER_PX * ratio];
      const ends = [low, high].flatMap((end) => [[middle - half, end], [middle + half, end]]);
      stroke([], [middle, low], [middle, high], ...ends);
    });
  });
  ctx.restore();
}

function faded(colour, /** @type {string} */ opacity) {
  return /^#[0-9a-f]{6}$/i.test(colour) ? colour + opacity : "transparent";
}

function drawable(/** @type {unknown} */ value) {
  return typeof value === "number" && Math.abs(value) < MAX_VALUE;
}
