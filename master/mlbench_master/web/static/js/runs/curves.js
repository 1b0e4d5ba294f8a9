// A small curve in the row of each run: its target's metric over training time.

import { get } from "../api.js";
import { svg } from "../dom.js";
import * as format from "../format.js";
import { codeOf, isActive } from "../records.js";
import { ninthTenth } from "./columns.js";

/**
 * @typedef {import("../records.js").Schemas["RunCurve"]} RunCurve
 * @import { Run, Target } from "../records.js"
 */

const [WIDTH, HEIGHT, EDGE] = [76, 24, 2];
// Maximum number of curves in one response of the API.
const MAX_CURVES = 200;
const ACTIVE_MS = 10_000;
const HUNDRED = 100;
// A metric that must fall is drawn from so many times its target; what is above is cut off.
const TIMES_TARGET = 3;

/** @returns {number[]} the training time of each point; the time since the start if unknown. */
export function secondsOf(/** @type {RunCurve} */ { seconds, training_seconds: training }) {
  return training.length && training.every((at) => at != null) ? training : seconds;
}

/** @returns {[number, number]} the values at the bottom and top of a curve with this target. */
export function rangeOf(/** @type {Target} */ { metric, value, lower_is_better: isLower }) {
  if (isLower) return [0, TIMES_TARGET * value || 1];
  return [0, format.isPercent(metric) ? HUNDRED : value * 1.1 || 1];
}

/** @returns {string} the corners of a curve's line, on an axis of `longest` seconds. */
export function pointsOf(/** @type {RunCurve} */ curve, /** @type {Target} */ target, /** @type {number} */ longest) {
  const seconds = secondsOf(curve);
  const points = curve.values.map((value, i) => `${placeX(seconds[i], longest).toFixed(1)},${placeY(value, target).toFixed(1)}`);
  return (points[1] ? points : [...points, ...points]).join(" "); // one alone is a dot
}

function placeX(at, longest) {
  return EDGE + ((WIDTH - 2 * EDGE) * at) / (longest || 1);
}

function placeY(value, target) {
  const [low, high] = rangeOf(target);
  const share = Math.min(1, Math.max(0, (value - low) / (high - low)));
  return HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * share;
}

/** @returns {string} a curve in words. */
export function labelOf(/** @type {RunCurve} */ { metric, values }) {
  const [first, last] = [values[0], values.at(-1)].map((value) => format.metric(metric, value));
  return `${format.metricTitle(metric)} from ${first} to ${last}`;
}

// Runs whose curves have one scale.
function kindOf(/** @type {Run} */ run) {
  return `${codeOf(run)} ${run.target.metric} ${run.target.value}`;
}

/** The curves of the runs that are listed. */
export class Curves {
  /** @type {Map<number, RunCurve>} */
  #curves = new Map();
  /** @type {Map<number, string>} what each run was when its curve was asked for */
  #asked = new Map();
  /** @type {Map<string, number>} the training time that the axis of each kind of runs has */
  #longest = new Map();
  #askedAt = 0;

  /** Fetch what is not known of the curves of these runs. @returns {Promise<boolean>} whether something was */
  async fetch(/** @type {Run[]} */ runs) {
    const isDue = Date.now() - this.#askedAt > ACTIVE_MS;
    // A run's curve is stored before its archive.
    const stateOf = (run) => `${run.state} ${run.archive}`;
    const isWanted = (run) => run.target && ((isActive(run) && isDue) || this.#asked.get(run.id) !== stateOf(run));
    const wanted = runs.filter(isWanted).slice(0, MAX_CURVES);
    if (!wanted.length) return false;
    this.#askedAt = Date.now();
    for (const run of wanted) this.#asked.set(run.id, stateOf(run));
    const curves = await get("/api/runs/curves/", { runs: wanted.map((run) => run.id).join(",") });
    for (const curve of curves) this.#curves.set(curve.run_id, curve);
    return true;
  }

  /** Measure these runs, so that the curves of one kind have one axis; a very long one leaves it. */
  measure(/** @type {Run[]} */ runs) {
    const ends = new Map();
    for (const run of runs) {
      const curve = this.#curves.get(run.id);
      if (curve && run.target) ends.set(kindOf(run), [...(ends.get(kindOf(run)) ?? []), secondsOf(curve).at(-1) ?? 0]);
    }
    this.#longest = new Map([...ends].map(([kind, seconds]) => [kind, ninthTenth(seconds)]));
  }

  /** @returns {number | null} the last value of a run's curve. */
  lastOf(/** @type {Run} */ run) {
    return this.#curves.get(run.id)?.values.at(-1) ?? null;
  }

  /** Draw the curve of a run into a cell. */
  show(/** @type {HTMLElement} */ cell, /** @type {Run} */ run) {
    const curve = run.target && this.#curves.get(run.id);
    const points = curve ? pointsOf(curve, run.target, this.#longest.get(kindOf(run))) : "";
    if ((cell.dataset.drawn ?? "") === points) return;
    cell.dataset.drawn = points;
    cell.replaceChildren(...(points ? [this.#draw(curve, run.target, points)] : []));
  }

  #draw(curve, target, points) {
    const label = labelOf(curve);
    const [y, line] = [placeY(target.value, target), svg("polyline", { points })];
    const size = { width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "runs-curve" };
    const aim = svg("line", { x1: 0, x2: WIDTH, y1: y, y2: y });
    return svg("svg", { ...size, role: "img", "aria-label": label }, svg("title", {}, label), aim, line);
  }
}
