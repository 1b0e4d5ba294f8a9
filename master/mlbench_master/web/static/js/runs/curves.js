// A small curve in the row of each run: its target's metric over time.

import { get } from "../api.js";
import { svg } from "../dom.js";
import * as format from "../format.js";
import { isActive } from "../records.js";

/**
 * @typedef {import("../records.js").Schemas["RunCurve"]} RunCurve
 * @import { Run } from "../records.js"
 */

const WIDTH = 76;
const HEIGHT = 26;
const EDGE = 2;
// Maximum number of curves in one response of the API.
const MAX_CURVES = 200;
const ACTIVE_MS = 10_000;

/** @returns {string} the corners of a curve's line, from the run's start on. */
export function pointsOf(/** @type {RunCurve} */ { seconds, values }) {
  const [low, high, end] = [Math.min(...values), Math.max(...values), seconds.at(-1)];
  const x = (at) => EDGE + ((WIDTH - 2 * EDGE) * at) / (end || 1);
  const y = (value) => HEIGHT - EDGE - ((HEIGHT - 2 * EDGE) * (value - low)) / (high - low || 1);
  const points = values.map((value, i) => `${x(seconds[i]).toFixed(1)},${y(value).toFixed(1)}`);
  return (points[1] ? points : [...points, ...points]).join(" "); // one alone is a dot
}

/** @returns {string} a curve in words. */
export function labelOf(/** @type {RunCurve} */ { metric, values }) {
  const [first, last] = [values[0], values.at(-1)].map((value) => format.metric(metric, value));
  return `${metric} from ${first} to ${last}`;
}

/** The curves of the runs that are listed, each drawn when its row comes into view. */
export class Curves {
  /** @type {Map<number, RunCurve>} */
  #curves = new Map();
  /** @type {Map<number, string>} what each run was when its curve was asked for */
  #asked = new Map();
  #askedAt = 0;
  #observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries)
      if (isIntersecting) this.#draw(/** @type {HTMLElement} */ (target));
  });

  /** Show the curves of runs in their rows; those that are not known are asked for in one request. */
  async show(/** @type {HTMLTableSectionElement} */ body, /** @type {Run[]} */ runs) {
    this.#watch(body);
    const isDue = Date.now() - this.#askedAt > ACTIVE_MS;
    // A run's curve is stored before its archive.
    const stateOf = (run) => `${run.state} ${run.archive}`;
    const isWanted = (run) => run.target && ((isActive(run) && isDue) || this.#asked.get(run.id) !== stateOf(run));
    const wanted = runs.filter(isWanted).slice(0, MAX_CURVES);
    if (!wanted.length) return;
    this.#askedAt = Date.now();
    for (const run of wanted) this.#asked.set(run.id, stateOf(run));
    const curves = await get("/api/runs/curves/", { runs: wanted.map((run) => run.id).join(",") });
    for (const curve of curves) this.#curves.set(curve.run_id, curve);
    this.#watch(body);
  }

  #watch(body) {
    this.#observer.disconnect();
    for (const row of body.rows) this.#observer.observe(row);
  }

  #draw(row) {
    const curve = this.#curves.get(Number(row.dataset.key));
    const cell = row.querySelector(".runs-curve");
    const points = curve ? pointsOf(curve) : "";
    if (!points || cell.dataset.drawn === points) return;
    cell.dataset.drawn = points;
    const label = labelOf(curve);
    const line = svg("polyline", { points });
    const size = { width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}` };
    cell.replaceChildren(svg("svg", { ...size, role: "img", "aria-label": label }, svg("title", {}, label), line));
  }
}
