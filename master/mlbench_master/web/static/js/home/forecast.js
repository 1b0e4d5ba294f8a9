// The time at which an active run will reach its target, if its curve goes on as before.

import { count, number } from "../format.js";

/**
 * @import { Target } from "../records.js"
 * @typedef {{ seconds: number, way: { seconds: number[], values: number[] } }} Forecast
 */

const MIN_POINTS = 5;
// The start of training says little about its end.
const LEFT_OUT = 0.2;
// Time constants that are tried, as multiples of the time so far.
const CONSTANTS = Array.from({ length: 48 }, (_, i) => 0.05 * 1.14 ** i);
// A target that is farther away cannot be foreseen.
const MAX_TIMES = 20;
const WAY_POINTS = 40;
const [MINUTE, HOUR, DAY] = [60, 3600, 86_400];

/**
 * Fit an exponential approach, `a + b·exp(−t / c)`, to the curve of the target's metric. Recent points
 * weigh more.
 * @param {{ seconds: number[], values: number[] }} curve
 * @param {Target} target
 * @returns {Forecast | null} when the curve reaches the target, in seconds since the start of the run,
 *   and its way there; null if it does not seem to reach the target
 */
export function forecast({ seconds, values }, { value: aim, lower_is_better: isLower }) {
  const first = Math.floor(LEFT_OUT * seconds.length);
  const [times, points] = [seconds.slice(first), values.slice(first)];
  const [last, current] = [times.at(-1), points.at(-1)];
  if (times.length < MIN_POINTS || !(last > 0)) return null;
  const fits = CONSTANTS.map((factor) => fit(times, points, factor * last)).filter(Boolean);
  const best = fits.reduce((least, one) => (one.error < least.error ? one : least), { error: Infinity, a: NaN, b: 0, c: 1 });
  const { a, b, c } = best;
  if (isLower ? !(b > 0 && a < aim) : !(b < 0 && a > aim)) return null;
  const reached = Math.max(last, c * Math.log(b / (aim - a)));
  if (reached > MAX_TIMES * last) return null;
  const at = (/** @type {number} */ time) => a + b * Math.exp(-time / c);
  // The way leaves the curve at its last point, and comes close to the fit within a time constant.
  const offset = current - at(last);
  const steps = Array.from({ length: WAY_POINTS }, (_, i) => last + ((reached - last) * i) / (WAY_POINTS - 1));
  const bent = steps.map((time) => at(time) + offset * (1 - (time - last) / (reached - last || 1)));
  return { seconds: reached, way: { seconds: steps, values: bent } };
}

// Weighted least squares for a and b with a given c.
function fit(/** @type {number[]} */ times, /** @type {number[]} */ values, /** @type {number} */ c) {
  let [w, wx, wxx, wy, wxy] = [0, 0, 0, 0, 0];
  times.forEach((time, i) => {
    const [weight, x] = [(i + 1) / times.length, Math.exp(-time / c)];
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wy += weight * values[i];
    wxy += weight * x * values[i];
  });
  const determinant = w * wxx - wx * wx;
  if (!(Math.abs(determinant) > 1e-12 * w * wxx)) return null;
  const b = (w * wxy - wx * wy) / determinant;
  const a = (wy - b * wx) / w;
  const error = times.reduce((sum, time, i) => {
    const rest = values[i] - a - b * Math.exp(-time / c);
    return sum + ((i + 1) / times.length) * rest * rest;
  }, 0);
  return { a, b, c, error };
}

/** @returns {string} an estimated duration, such as `≈ 40 s` or `≈ 6 min`. */
export function roughly(/** @type {number} */ seconds) {
  if (seconds < 2) return "any moment";
  if (seconds < 2 * MINUTE) return `≈ ${count(seconds)} s`;
  if (seconds < 2 * HOUR) return `≈ ${count(seconds / MINUTE)} min`;
  return seconds < 2 * DAY ? `≈ ${number(seconds / HOUR, 2)} h` : `≈ ${number(seconds / DAY, 2)} d`;
}
