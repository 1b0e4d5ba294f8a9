// A small curve without axes, drawn as SVG: what one number did in the last minutes.

import { svg } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 28;

/** @returns {SVGElement} an empty sparkline; its accessible name is given along with its data. */
export function sparkline() {
  return svg(
    "svg",
    { class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
    svg("path", { class: "sparkline-area" }),
    svg("path", { class: "sparkline-line" }),
  );
}

/**
 * Show what is new in a sparkline.
 * @param {SVGElement} element
 * @param {{ times: number[], values: number[] }} series
 * @param {{ from: number, to: number, top: number, label: string }} frame the first and the last
 *   millisecond, the value of the upper edge, and what it shows in words
 */
export function drawSparkline(element, series, frame) {
  const [area, line] = element.children;
  const path = toPath(series, frame);
  line.setAttribute("d", path.line);
  area.setAttribute("d", path.area);
  element.setAttribute("aria-label", frame.label);
}

/** @returns {{ line: string, area: string }} SVG paths; values above the top are cut off. Pure. */
export function toPath(series, { from, to, top }) {
  const points = series.times
    .map((time, i) => [time, series.values[i]])
    .filter(([time, value]) => time >= from && time <= to && Number.isFinite(value))
    .map(([time, value]) => [
      ((time - from) / (to - from)) * WIDTH,
      HEIGHT - 1 - (Math.min(Math.max(value, 0), top) / (top || 1)) * (HEIGHT - 3),
    ].map((number) => number.toFixed(1)));
  if (points.length < 2) return { line: "", area: "" };
  const line = `M${points.map((point) => point.join(" ")).join("L")}`;
  return { line, area: `${line}L${points.at(-1)[0]} ${HEIGHT}L${points[0][0]} ${HEIGHT}Z` };
}
