// The time at which an active run will reach its target, if its curve goes on as before.

import { UNITS, number } from "../format.js";
import { mean } from "../series.js";

/**
 * @typedef {{ seconds: number[], values: number[] }} Curve
 * @typedef {{ seconds: number, way: Curve }} Forecast
 */

const MIN_POINTS = 5;
// The start of training says little about its end.
const LEFT_OUT = 0.2;
// Time constants that are tried, as multiples of the time so far.
const CONSTANTS = Array.from({ length: 48 }, (_, i) => 0.05 * 1.14 ** i);
// A target that is farther away cannot be foreseen.
const MAX_TIMES = 20;
const WAY_POINTS = 40;

/**
 * Fit an exponential approach, `a + b·exp(−t / c)`, to the curve of the target's metric. Recent points weigh more.
 * @returns {Forecast | null} when the curve reaches the target, in seconds since the start of the run, and its way
 *   there; null if it does not seem to reach the target
 */
export function forecast(/** @type {Curve} */ { seconds, values }, /** @type {Target} */ { value: aim, lower_is_better: isLower }) {
  const first = Math.floor(LEFT_OUT * seconds.length);
  const [times, points] = [seconds.slice(first), values.slice(first)];
  const [last, current] = [times.at(-1), points.at(-1)];
  if (times.length < MIN_POINTS || !(last > 0)) return null;
  const fits = CONSTANTS.map((factor) => fit(times, points, factor * last));
  const { a, b, c } = fits.reduce((best, other) => (other.error < best.error ? other : best));
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
  const weighted = (/** @type {number[]} */ column) => mean(column.map((value, i) => (2 * (i + 1) * value) / (column.length + 1)));
  const decay = times.map((time) => Math.exp(-time / c));
  const [x, y] = [weighted(decay), weighted(values)];
  const b = weighted(decay.map((at, i) => (at - x) * (values[i] - y))) / weighted(decay.map((at) => (at - x) ** 2));
  const a = y - b * x;
  return { a, b, c, error: weighted(values.map((value, i) => (value - a - b * decay[i]) ** 2)) };
}

/** @returns {string} an estimated duration, such as `≈ 40 s` or `≈ 6.2 min`. */
export function roughly(/** @type {number} */ seconds) {
  const [size, unit] = UNITS.find(([length]) => seconds >= 2 * length) ?? [0, ""];
  return unit ? `≈ ${number(seconds / size, 2)} ${unit}` : "any moment";
}
