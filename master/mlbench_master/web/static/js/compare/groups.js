// The mean of a group's runs, and the interval in which it is with 95 % confidence.

import { byId } from "../dom.js";
import { plural } from "../format.js";
import { extentOf, smoothed } from "../lines.js";
import { mean, sum } from "../series.js";

/**
 * @import { Axes, Line } from "../plot.js"
 * @typedef {{ x: number[], y: number[] }} Curve
 */

// A mean of more places than pixels shows nothing more.
const MAX_PLACES = 2000;
// As mlbench/evaluation/statistics.py: fewer runs have no interval of their mean.
const ENOUGH = 3;

/**
 * @returns {Line[]} the mean of each group that has curves, with its interval, and its runs behind; they are
 *   smoothed before the mean is taken. A group has the style of its first run.
 */
export function toGroupLines(
  /** @type {Group[]} */ groups,
  /** @type {Result[]} */ results,
  /** @type {Curve[]} */ curves,
  /** @type {Axes} */ axes,
  /** @type {(id: number) => object} */ styleOf,
) {
  const extent = extentOf(curves.map(({ x }) => x), axes.xType === "log");
  const lines = groups.map(({ label, run_ids: ids }) => {
    const members = results.map(({ run_id: id }, i) => ({ id, curve: curves[i] })).filter(({ id }) => ids.includes(id));
    const behind = members.filter(({ curve }) => curve.x.length).map(({ curve: { x, y } }) => ({ x, y }));
    const smooth = behind.map((curve) => ({ x: curve.x, y: smoothed(curve, axes, extent).smooth ?? curve.y }));
    const keys = members.map(({ id }) => id);
    const name = `${label} (${plural(behind.length, "run")})`;
    return { name, keys, ...styleOf(keys[0]), behind, ...meanOf(smooth) };
  });
  return lines.filter(({ x }) => x.length);
}

/**
 * @returns the mean of curves at each place at which any of them has a point, over those that are between their
 *   ends there, linearly interpolated; its interval of 95 %, by Student's t; and of how many curves it is
 */
export function meanOf(/** @type {Curve[]} */ curves) {
  // The quantiles of Student's t by degrees of freedom, which templates/_comparison.html has.
  const quantiles = JSON.parse(byId("quantiles").textContent);
  const whole = curves.map(forward).filter(({ x }) => x.length);
  const places = [...new Set(whole.flatMap(({ x }) => x))].sort((a, b) => a - b);
  const every = Math.ceil(places.length / MAX_PLACES);
  const x = places.filter((_, i) => i % every === 0 || i === places.length - 1);
  const points = x.map((place) => {
    const values = whole.map((curve) => valueAt(curve, place)).filter(Number.isFinite);
    const middle = mean(values);
    const variance = sum(values.map((value) => (value - middle) ** 2)) / (values.length - 1);
    const half = values.length >= ENOUGH ? quantiles[values.length - 2] * Math.sqrt(variance / values.length) : NaN;
    return { middle, half, count: values.length };
  });
  return {
    x,
    y: points.map(({ middle }) => middle),
    lows: points.map(({ middle, half }) => middle - half),
    highs: points.map(({ middle, half }) => middle + half),
    counts: points.map(({ count }) => count),
  };
}

// What is finite; of a curve that goes back, as after a restart, what counted in the end.
function forward(/** @type {Curve} */ { x, y }) {
  let next = Infinity;
  const isKept = x.map(() => false);
  for (let i = x.length - 1; i >= 0; i--) {
    isKept[i] = x[i] < next && Number.isFinite(y[i]);
    if (isKept[i]) next = x[i];
  }
  return { x: x.filter((_, i) => isKept[i]), y: y.filter((_, i) => isKept[i]) };
}

/** @returns {number} a curve's value at a place, interpolated; NaN beyond its ends */
function valueAt(/** @type {Curve} */ { x, y }, /** @type {number} */ place) {
  const i = x.findIndex((at) => at >= place);
  if (x[i] === place) return y[i];
  return y[i - 1] + ((place - x[i - 1]) / (x[i] - x[i - 1])) * (y[i] - y[i - 1]);
}
