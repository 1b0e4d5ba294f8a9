// Computations on lines before drawing: their extent, and smoothing.

/** @returns {[number, number]} the smallest and the largest x; infinite for empty lines. */
export function extentOf(/** @type {number[][]} */ columns, isLog = false) {
  const least = isLog ? 0 : -Infinity;
  let [low, high] = [Infinity, -Infinity];
  for (const x of columns) {
    for (let i = 0; i < x.length; i++) {
      const at = x[i];
      if (at < low && at > least) low = at;
      if (at > high && at > least && at < Infinity) high = at;
    }
  }
  return [low, high];
}

/**
 * Smooth by exponential weights: of all values so far, one that is `halfLife` further back on the
 * axis weighs half as much, however densely there are values. The weights are divided by their
 * sum, so that the first value does not pull. A line that goes back, as after a restart, begins
 * anew; what is no number has no part, and stays NaN. The half-life is in units of x, or of its logarithm.
 */
export function smooth(/** @type {number[]} */ x, /** @type {(number | null)[]} */ y, /** @type {number} */ halfLife, isLog = false) {
  const rate = Math.LN2 / halfLife;
  const means = new Array(y.length);
  let [total, weight, last] = [0, 0, NaN];
  // Loops of plain numbers: a function for each of millions of values takes ten times as long.
  for (let i = 0; i < y.length; i++) {
    const value = y[i];
    const at = isLog ? Math.log(x[i]) : x[i];
    means[i] = NaN;
    if (!isFinite(at) || value === null || !isFinite(value)) continue;
    const share = at >= last ? Math.exp(-rate * (at - last)) : 0;
    total = total * share + value;
    weight = weight * share + 1;
    last = at;
    means[i] = total / weight;
  }
  return means;
}

/** @returns {{ smooth?: number[] }} a line smoothed with the half-life of the axes; nothing without one. */
export function smoothed(
  /** @type {{ x: number[], y: (number | null)[] }} */ { x, y },
  /** @type {import("./plot.js").Axes} */ { smoothing, xType },
  /** @type {[number, number]} */ extent,
) {
  const isLog = xType === "log";
  const [from, to] = isLog ? extent.map(Math.log) : extent;
  return smoothing && to > from ? { smooth: smooth(x, y, smoothing * (to - from), isLog) } : {};
}
