// The traces and layouts that plotly.js draws: lines and bars in the colours of the theme.

import * as theme from "./theme.js";

const LINE_COLOURS = 10;
const DASHES = /** @type {const} */ (["solid", "dash", "dot"]);
const NAME_LENGTH = 28;
// With more curves, hovering names one at a time.
const MAX_UNIFIED = 8;
// The ends of an axis around larger values are no finite numbers.
const MAX_VALUE = 1e300;
// Beyond these plotly writes exponents, with styles that the pages' policy refuses.
const [MIN_PREFIX, MAX_PREFIX] = [1e-14, 1e14];
// A letter of the bars' names for every so many pixels of a chart, so that they take a third of it.
const PIXELS_PER_LETTER = 20;
const MIN_LETTERS = 10;

/**
 * A curve. `lows` and `highs` draw a band around it, unless they equal `y`, or whiskers of its
 * points, if it shows these. A colour is a custom property of the style sheet, such as
 * `--phase-data`, or any colour of CSS.
 * @typedef {{
 *   name: string, x: (number | string | Date)[], y: number[], lows?: number[], highs?: number[],
 *   colour?: string, dash?: "solid" | "dash" | "dot", points?: boolean, step?: boolean
 * }} Line
 */

/**
 * One part of every bar. `colours` are those of each bar, `lows` and `highs` draw whiskers.
 * @typedef {{
 *   name: string, values: (number | null)[], colour?: string, colours?: string[],
 *   hatched?: boolean, lows?: (number | null)[], highs?: (number | null)[]
 * }} Bars
 */

/**
 * Titles and kinds of the axes; `marks` are horizontal lines such as a goal, `moments` vertical
 * ones such as a restart; `bands` mark where something is wrong.
 * @typedef {{
 *   x?: string, y?: string, xType?: "linear" | "log" | "date", yType?: "linear" | "log",
 *   xTicks?: number[], ySuffix?: string, fromZero?: boolean, hasLegend?: boolean,
 *   exponents?: "e" | "B", marks?: { y: number, text: string }[],
 *   moments?: { x: number | Date, text: string }[], bands?: { x: number, to: number, text: string }[]
 * }} Axes
 */

/** @returns {{ colour: string, dash: "solid" | "dash" | "dot" }} the style of the i-th curve. */
export function styleOf(/** @type {number} */ i) {
  return {
    colour: `--series-${i % LINE_COLOURS}`,
    dash: DASHES[Math.floor(i / LINE_COLOURS) % DASHES.length],
  };
}

/** @returns the style of a run among those shown: its colour is that of its id's last digit. */
export function styleOfRun(/** @type {number} */ id, /** @type {number[]} */ ids) {
  const alike = ids.filter((one) => one % LINE_COLOURS === id % LINE_COLOURS);
  return styleOf((id % LINE_COLOURS) + LINE_COLOURS * alike.indexOf(id));
}

/** @returns {{ data: object[], layout: object }} a figure of lines. */
export function ofLines(/** @type {Line[]} */ lines, /** @type {Axes} */ axes) {
  const exponents = lines.some(hasNoPrefix) ? "e" : "B";
  return {
    data: lines.flatMap(toTraces),
    layout: layoutOf({ ...axes, exponents }, lines.length),
  };
}

/**
 * @param {string[]} rows the names of the bars
 * @param {Bars[]} parts
 * @param {{ x?: string, suffix?: string }} axes
 * @param {number} width of the chart, in pixels
 * @returns {{ data: object[], layout: object }} a figure of stacked bars
 */
export function ofBars(rows, parts, axes, width) {
  const places = rows.map((_, i) => i);
  const fitting = Math.floor(width / PIXELS_PER_LETTER);
  const letters = Math.max(MIN_LETTERS, Math.min(NAME_LENGTH, fitting));
  return {
    data: parts.map((part, i) => ({
      type: "bar",
      orientation: "h",
      name: escape(part.name),
      y: places,
      x: part.values,
      marker: {
        color: part.colours?.map(colourOf) ?? colourOf(part.colour, i),
        pattern: { shape: part.hatched ? "/" : "" },
      },
      error_x: whiskers(part),
      customdata: rows.map(escape),
      hovertemplate: `%{customdata}: %{x:.4~g}${axes.suffix ?? ""}`,
    })),
    layout: {
      ...layoutOf({ x: axes.x, fromZero: true }, parts.length),
      barmode: "stack",
      hovermode: "closest",
      yaxis: {
        automargin: true,
        autorange: "reversed",
        fixedrange: true,
        tickvals: places,
        ticktext: rows.map((row) => shortened(row, letters)),
      },
    },
  };
}

/** @returns {object[]} */
function toTraces(/** @type {Line} */ line, /** @type {number} */ i) {
  const colour = colourOf(line.colour, i);
  const curve = {
    type: "scatter",
    mode: line.points ? "lines+markers" : "lines",
    name: escape(line.name),
    uid: idOf(line.name),
    x: line.x,
    y: line.y.map(drawable),
    connectgaps: false,
    line: {
      color: colour,
      width: 1.6,
      dash: line.dash ?? "solid",
      shape: line.step ? "hv" : "linear",
    },
    marker: { size: 5 },
    hovertemplate: "%{y:.5~g}",
    error_y: line.points ? whiskers({ ...line, values: line.y }, colour) : undefined,
  };
  if (line.points || !line.highs || line.highs.every((high, j) => Object.is(high, line.y[j]))) return [curve];
  const band = {
    type: "scatter",
    mode: "lines",
    uid: idOf(`${line.name} band`),
    ...outline(line),
    fill: "toself",
    fillcolor: faded(colour),
    line: { width: 0, color: colour },
    hoverinfo: "skip",
    showlegend: false,
    legendgroup: line.name,
  };
  return [band, { ...curve, legendgroup: line.name }];
}

// plotly puts a uid into a CSS selector.
function idOf(name) {
  return name.replace(/\W/g, (sign) => `-${sign.charCodeAt(0)}`);
}

// The outline of a line's band; gaps divide it into parts.
function outline(/** @type {Line} */ { x, lows, highs }) {
  const around = { x: [], y: [] };
  let from = 0;
  for (let to = 0; to <= x.length; to++) {
    if (to < x.length && drawable(lows[to]) !== null && drawable(highs[to]) !== null) continue;
    const backwards = (column) => column.slice(from, to).toReversed();
    if (to > from) {
      around.x.push(...x.slice(from, to), ...backwards(x), null);
      around.y.push(...highs.slice(from, to), ...backwards(lows), null);
    }
    from = to + 1;
  }
  return around;
}

function layoutOf(/** @type {Axes} */ axes, curves) {
  const ink = theme.colour("--ink");
  const soft = theme.colour("--soft");
  const rule = theme.colour("--rule");
  const axis = {
    gridcolor: rule,
    zerolinecolor: rule,
    linecolor: rule,
    tickcolor: rule,
    tickfont: { color: soft },
    automargin: true,
  };
  const title = (text) =>
    text ? { text: escape(text), font: { size: 12, color: soft }, standoff: 8 } : undefined;
  // On a logarithmic axis, plotly places texts by the logarithm, but not lines.
  const heightOf = (mark) => (axes.yType === "log" ? Math.log10(mark.y) : mark.y);
  return {
    // Zoom and hidden curves are kept while this stays the same.
    uirevision: JSON.stringify([axes.x, axes.y, axes.xType, axes.yType]),
    margin: { l: 8, r: 12, t: 8, b: 8 },
    font: { family: "inherit", size: 12, color: ink },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: curves > 1 && axes.hasLegend !== false,
    legend: {
      orientation: "h",
      traceorder: "normal",
      x: 0,
      yref: "container",
      y: 0,
      yanchor: "bottom",
      font: { color: ink },
    },
    hovermode: curves > MAX_UNIFIED ? "closest" : "x unified",
    hoverlabel: {
      bgcolor: theme.colour("--paper"),
      bordercolor: rule,
      font: { color: ink },
      namelength: NAME_LENGTH,
    },
    xaxis: { ...axis, title: title(axes.x), type: axes.xType ?? "linear", tickvals: axes.xTicks },
    yaxis: {
      ...axis,
      title: title(axes.y),
      type: axes.yType ?? "linear",
      ticksuffix: axes.ySuffix ?? "",
      exponentformat: axes.exponents,
      rangemode: axes.fromZero ? "tozero" : "normal",
    },
    shapes: [
      ...(axes.marks ?? []).map((mark) => ({
        type: "line", xref: "paper", x0: 0, x1: 1, y0: mark.y, y1: mark.y,
        line: { color: soft, width: 1, dash: "dash" },
      })),
      ...(axes.moments ?? []).map((one) => ({
        type: "line", yref: "paper", y0: 0, y1: 1, x0: one.x, x1: one.x,
        line: { color: soft, width: 1, dash: "dot" },
      })),
      ...(axes.bands ?? []).map((band) => ({
        type: "rect", yref: "paper", y0: 0, y1: 1, x0: band.x, x1: band.to, layer: "below",
        line: { width: 0 }, fillcolor: theme.colour("--bad"), opacity: 0.15,
      })),
    ],
    annotations: [
      ...(axes.marks ?? []).map((mark) => ({
        // At the left, as curves reach the goal at the right.
        xref: "paper", x: 0, xanchor: "left", y: heightOf(mark), yanchor: "bottom",
        text: escape(mark.text), showarrow: false, font: { size: 11, color: soft },
      })),
      ...[...(axes.moments ?? []), ...(axes.bands ?? [])].map((one) => ({
        yref: "paper", y: 1, yanchor: "top", x: one.x, xanchor: "left",
        text: escape(one.text), showarrow: false, font: { size: 11, color: soft },
      })),
    ],
  };
}

function colourOf(colour, i) {
  if (!colour) return theme.colour(styleOf(i).colour);
  return colour.startsWith("--") ? theme.colour(colour) : colour;
}

// plotly's error bars, from the smallest to the largest value of each bar or point.
function whiskers(
  /** @type {Pick<Bars, "values" | "lows" | "highs">} */ { values, lows, highs },
  colour = theme.colour("--ink"),
) {
  if (!lows || !highs) return undefined;
  return {
    type: "data",
    symmetric: false,
    array: values.map((value, i) => highs[i] - value),
    arrayminus: values.map((value, i) => value - lows[i]),
    color: colour,
    thickness: 1.2,
    width: 5,
  };
}

// A name on at most two short lines, with its start and its end.
function shortened(text, letters) {
  if (text.length <= letters) return escape(text);
  const end = text.slice(letters);
  const second = end.length > letters ? `…${end.slice(1 - letters)}` : end;
  return `${escape(text.slice(0, letters))}<br>${escape(second)}`;
}

function faded(colour) {
  return /^#[0-9a-f]{6}$/i.test(colour) ? `${colour}33` : colour;
}

// null leaves a gap.
function drawable(/** @type {number} */ value) {
  return Math.abs(value) < MAX_VALUE ? value : null;
}

function hasNoPrefix(/** @type {Line} */ { y, lows = [], highs = [] }) {
  const isFar = (value) => {
    const size = Math.abs(drawable(value));
    return size >= MAX_PREFIX || (size > 0 && size <= MIN_PREFIX);
  };
  return [y, lows, highs].some((column) => column.some(isFar));
}

// plotly interprets some HTML in texts, and formulas between dollar signs.
function escape(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("$", "&#36;");
}
