// What plotly.js is told: traces and layouts of lines and bars, in the colours of the theme.

import * as theme from "./theme.js";

const LINE_COLOURS = 7;
const NAME_LENGTH = 28;
// Of more curves, hovering tells one at a time.
const MOST_AT_ONCE = 8;
// Of larger ones the ends of an axis are no numbers any more.
const MOST = 1e300;
// Beyond these there are no prefixes, and plotly writes exponents with styles that our policy refuses.
const [LEAST_PREFIX, MOST_PREFIX] = [1e-14, 1e14];
// Names beside bars take a third of a small chart: so many pixels of its width let a letter in.
const COLUMN_SHARE = 20;
const LEAST_COLUMNS = 10;

/**
 * One curve of a chart. `lows` and `highs` draw a band around it, where they differ from `y`. A
 * colour is a custom property of the style sheet, such as `--phase-data`, or one that CSS knows.
 * @typedef {{
 *   name: string, x: (number | string | Date)[], y: number[], lows?: number[], highs?: number[],
 *   colour?: string, dash?: "solid" | "dash" | "dot", points?: boolean, step?: boolean
 * }} Line
 */

/**
 * A part of each bar; `colours` is of each bar its own, `lows` and `highs` draw whiskers.
 * @typedef {{
 *   name: string, values: (number | null)[], colour?: string, colours?: string[], hatched?: boolean,
 *   lows?: (number | null)[], highs?: (number | null)[]
 * }} Bars
 */

/** @returns {string} the colour of the i-th of several things that are compared. */
export function lineColour(/** @type {number} */ i) {
  return theme.colour(`--series-${i % LINE_COLOURS}`);
}

/** @returns {{ data: object[], layout: object }} lines over axes as `Chart.draw` has them. */
export function ofLines(/** @type {Line[]} */ lines, /** @type {any} */ axes) {
  const exponents = lines.some(hasNoPrefix) ? "e" : "B";
  return {
    data: lines.flatMap(toTraces),
    layout: layoutOf({ ...axes, exponents }, lines.length),
  };
}

/**
 * @param {string[]} rows
 * @param {Bars[]} parts
 * @param {any} axes as `Chart.drawBars` has them
 * @param {number} width of the chart, in pixels
 * @returns {{ data: object[], layout: object }} a stacked bar for each row
 */
export function ofBars(rows, parts, axes, width) {
  const places = rows.map((_, i) => i);
  const columns = Math.max(LEAST_COLUMNS, Math.min(NAME_LENGTH, Math.floor(width / COLUMN_SHARE)));
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
        ticktext: rows.map((row) => shortened(row, columns)),
      },
    },
  };
}

/** @returns {object[]} plotly's traces of a line. */
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
    line: { color: colour, width: 1.6, dash: line.dash ?? "solid", shape: line.step ? "hv" : "linear" },
    marker: { size: 5 },
    hovertemplate: "%{y:.5~g}",
  };
  if (!line.highs || line.highs.every((high, j) => Object.is(high, line.y[j]))) return [curve];
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

// plotly puts it into a CSS selector.
function idOf(name) {
  return name.replace(/\W/g, (sign) => `-${sign.charCodeAt(0)}`);
}

/** @returns {{ x: any[], y: (number | null)[] }} around the band of a line, each part between gaps. */
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

function layoutOf(axes, curves) {
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
  // Of texts, plotly takes the place on a logarithmic axis as its logarithm; of lines it does not.
  const heightOf = (mark) => (axes.yType === "log" ? Math.log10(mark.y) : mark.y);
  return {
    // What the user did with the axes is kept while this stays the same.
    uirevision: JSON.stringify([axes.x, axes.y, axes.xType, axes.yType]),
    margin: { l: 8, r: 12, t: 8, b: 8 },
    font: { family: "inherit", size: 12, color: ink },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    colorway: undefined,
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
    hovermode: curves > MOST_AT_ONCE ? "closest" : "x unified",
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
    ],
    annotations: [
      ...(axes.marks ?? []).map((mark) => ({
        // At the left: at the right ends the curve that reaches it.
        xref: "paper", x: 0, xanchor: "left", y: heightOf(mark), yanchor: "bottom",
        text: escape(mark.text), showarrow: false, font: { size: 11, color: soft },
      })),
      ...(axes.moments ?? []).map((one) => ({
        yref: "paper", y: 1, yanchor: "top", x: one.x, xanchor: "left",
        text: escape(one.text), showarrow: false, font: { size: 11, color: soft },
      })),
    ],
  };
}

function colourOf(colour, i) {
  if (!colour) return lineColour(i);
  return colour.startsWith("--") ? theme.colour(colour) : colour;
}

/** @returns {object | undefined} plotly's error bars, from the least to the most of each bar. */
function whiskers(/** @type {Bars} */ { values, lows, highs }) {
  if (!lows || !highs) return undefined;
  return {
    type: "data",
    symmetric: false,
    array: values.map((value, i) => highs[i] - value),
    arrayminus: values.map((value, i) => value - lows[i]),
    color: theme.colour("--ink"),
    thickness: 1.2,
    width: 5,
  };
}

/** @returns {string} a name on at most two short lines; of a longer one its begin and its end. */
function shortened(text, columns) {
  if (text.length <= columns) return escape(text);
  const end = text.slice(columns);
  const second = end.length > columns ? `…${end.slice(1 - columns)}` : end;
  return `${escape(text.slice(0, columns))}<br>${escape(second)}`;
}

function faded(colour) {
  return /^#[0-9a-f]{6}$/i.test(colour) ? `${colour}33` : colour;
}

/** @returns {number | null} a value that plotly can draw; null leaves a gap. */
function drawable(/** @type {number} */ value) {
  return Math.abs(value) < MOST ? value : null;
}

function hasNoPrefix(/** @type {Line} */ { y, lows = [], highs = [] }) {
  const isFar = (value) => {
    const size = Math.abs(drawable(value));
    return size >= MOST_PREFIX || (size > 0 && size <= LEAST_PREFIX);
  };
  return [y, lows, highs].some((column) => column.some(isFar));
}

// plotly reads a little HTML in texts, and formulas between dollars.
function escape(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("$", "&#36;");
}
