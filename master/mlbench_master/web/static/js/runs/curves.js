// The curve of each run in a list: its target's metric over training time.

import { get } from "../api.js";
import { sparkline } from "../bars.js";
import * as format from "../format.js";
import { codeOf, isActive } from "../records.js";

// Maximum number of curves in one response of the API.
const MAX_CURVES = 200;
const ACTIVE_MS = 10_000;
// A metric that must fall is drawn up to this multiple of its target; higher values are cut off.
const TIMES_TARGET = 3;

/** @returns {number[]} the training time of each point; the time since the start if unknown. */
export function secondsOf(/** @type {RunCurve} */ { seconds, training_seconds: training }) {
  return training.length && training.every((at) => at != null) ? training : seconds;
}

/** @returns {number} the value at the top of a curve with this target; that at the bottom is 0. */
export function topOf(/** @type {Target} */ { metric, value, lower_is_better: isLower }) {
  if (isLower) return TIMES_TARGET * value || 1;
  return format.isPercent(metric) ? 100 : value * 1.1 || 1;
}

/** @returns {number} what nine tenths of values do not exceed: a few very long runs squeeze no others. */
export function ninthTenth(/** @type {(number | null)[]} */ values) {
  const known = values.filter((value) => value != null).sort((a, b) => a - b);
  return known[Math.ceil(0.9 * (known.length - 1))] ?? 1;
}

/** @returns {string} a curve in words. */
export function labelOf(/** @type {RunCurve} */ { metric, values }) {
  const [first, last] = [values[0], values.at(-1)].map((value) => format.metric(metric, value));
  return `${format.metricTitle(metric)} from ${first} to ${last}`;
}

// Runs of the same kind share a scale.
function kindOf(/** @type {Run} */ run) {
  return `${codeOf(run)} ${run.target.metric} ${run.target.value}`;
}

/** The curves of the runs that are listed. */
export class Curves {
  /** @type {Map<number, RunCurve>} */
  #curves = new Map();
  /** @type {Map<number, string>} the state of each run when its curve was requested */
  #asked = new Map();
  /** @type {Map<string, number>} the training time that the axis of each kind of runs has */
  #longest = new Map();

  /** Fetch the curves of these runs that are new. @returns {Promise<boolean>} whether there were any */
  async fetch(/** @type {Run[]} */ runs, activeMs = ACTIVE_MS) {
    const turn = Math.floor(Date.now() / activeMs);
    // A run's curve is stored before its archive.
    const stateOf = (run) => `${run.state} ${run.archive} ${isActive(run) ? turn : ""}`;
    const missing = runs.filter((run) => run.target && this.#asked.get(run.id) !== stateOf(run)).slice(0, MAX_CURVES);
    if (!missing.length) return false;
    for (const run of missing) this.#asked.set(run.id, stateOf(run));
    const curves = await get("/api/runs/curves/", { runs: missing.map(({ id }) => id).join(",") });
    for (const curve of curves) this.#curves.set(curve.run_id, curve);
    return true;
  }

  /** Measure these runs, so that the curves of one kind share an axis; a very long curve is cut off. */
  measure(/** @type {Run[]} */ runs) {
    const withCurve = runs.filter((run) => run.target && this.#curves.has(run.id));
    const kinds = Object.entries(Object.groupBy(withCurve, kindOf));
    const endOf = (/** @type {Run} */ run) => secondsOf(this.#curves.get(run.id)).at(-1) ?? 0;
    this.#longest = new Map(kinds.map(([kind, members]) => [kind, ninthTenth(members.map(endOf))]));
  }

  /** @returns {RunCurve | undefined} the curve of a run, once it has been fetched */
  of(/** @type {Run} */ run) {
    return this.#curves.get(run.id);
  }

  /** @returns {SVGElement | null} the curve of a run; null if there is none yet */
  draw(/** @type {Run} */ run) {
    const curve = run.target && this.#curves.get(run.id);
    return curve && sparkline({
      ...{ x: secondsOf(curve), y: curve.values, to: this.#longest.get(kindOf(run)), label: labelOf(curve) },
      ...{ high: topOf(run.target), target: run.target.value },
    });
  }
}
