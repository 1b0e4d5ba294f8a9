// Parallel coordinates: an axis for each swept key and one for the figure, a line for each run.

import { svg } from "../dom.js";
import { number } from "../format.js";

/** @typedef {import("../records.js").Schemas["SetAnalysis"]} SetAnalysis */

const [WIDTH, HEIGHT, MARGIN, TOP] = [480, 260, 45, 28];
const FAINTEST = 0.25;

/**
 * @param {SetAnalysis} analysis
 * @returns {{ name: string, heights: number[], good: number }[]} for each run with a figure, where
 *   its line crosses each axis, from 0 at the bottom to 1, and how good its figure is, 0 to 1
 */
export function toLines({ axes, points, unit, is_less_better: lessIsBetter }) {
  const runs = points.filter(({ figure }) => figure !== null);
  const figures = runs.map(({ figure }) => figure);
  const [least, most] = [Math.min(...figures), Math.max(...figures)];
  return runs.map(({ name, values, figure, run_id: id }) => {
    const end = most > least ? (figure - least) / (most - least) : 0.5;
    const heights = values.map((value, i) => axes[i].values.indexOf(value) / (axes[i].values.length - 1));
    const title = `run ${id}: ${name}, ${number(figure)} ${unit}`;
    return { name: title, heights: [...heights, end], good: lessIsBetter ? 1 - end : end };
  });
}

/** Draw the runs of a set into `place`. */
export function drawParallel(/** @type {Element} */ place, /** @type {SetAnalysis} */ analysis) {
  const lines = toLines(analysis);
  const x = (i) => MARGIN + (i * (WIDTH - 2 * MARGIN)) / analysis.axes.length;
  const y = (height) => HEIGHT - TOP - height * (HEIGHT - 2 * TOP);
  const label = (text, i, at) => {
    const look = { "text-anchor": "middle", "font-size": 12, fill: "currentColor", "stroke-width": 4 };
    const element = svg("text", { x: x(i), y: at, "paint-order": "stroke", ...look }, text);
    element.style.stroke = "var(--raised)"; // so that it can be read over lines
    return element;
  };
  const figures = analysis.points.map(({ figure }) => figure).filter((figure) => figure !== null);
  const ends = [Math.min(...figures), Math.max(...figures)].map((value) => number(value));
  const axes = [
    ...analysis.axes.map(({ key, values }) => ({ name: key, values })),
    { name: `[${analysis.unit}]`, values: ends[0] === ends[1] ? [ends[0]] : ends },
  ];
  const drawnAxes = axes.flatMap(({ name, values }, i) => [
    svg("line", { x1: x(i), x2: x(i), y1: y(0), y2: y(1), stroke: "currentColor", "stroke-opacity": 0.3 }),
    label(name, i, TOP / 2),
    ...values.map((value, j) => label(value, i, y(values.length > 1 ? j / (values.length - 1) : 0.5) + 14)),
  ]);
  const drawnLines = lines.map(({ name, heights, good }) => {
    const points = heights.map((height, i) => `${x(i)},${y(height)}`).join(" ");
    const line = svg("polyline", { points, fill: "none", "stroke-width": 2 }, svg("title", {}, name));
    line.style.stroke = "var(--series-0)";
    line.style.strokeOpacity = String(FAINTEST + (1 - FAINTEST) * good);
    return line;
  });
  const what = `${lines.length} runs over ${analysis.axes.map(({ key }) => key).join(", ")}; ${analysis.measure}`;
  const picture = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: "100%", role: "img", "aria-label": what };
  place.replaceChildren(svg("svg", picture, ...drawnLines, ...drawnAxes));
}
