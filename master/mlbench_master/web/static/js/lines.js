// Computations on lines before drawing: smoothing, reduction to pixels, lookup.

/**
 * A part of a line in which x increases; `smooth` is there if the line is smoothed, `counts` if it
 * is of several runs. What `isBehind` is pale, and not named.
 * @typedef {{ x: number[], y: (number | null)[], lows: (number | null)[],
 *   highs: (number | null)[], smooth?: (number | null)[], counts?: (number | null)[], isBehind?: boolean }} Part
 *
 * What is shown of the horizontal axis: from where to where, over how many pixels.
 * @typedef {{ from: number, to: number, pixels: number, isLog: boolean }} Window
 */

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
 * anew; what is no number has no part, and stays NaN.
 * @param {number[]} x
 * @param {(number | null)[]} y
 * @param {number} halfLife in units of x, or of its logarithm if `isLog`
 * @returns {number[]}
 */
export function smooth(x, y, halfLife, isLog = false) {
  const rate = Math.LN2 / halfLife;
  const means = new Array(y.length);
  let total = 0;
  let weight = 0;
  let last = NaN;
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

/**
 * @param {{ x: number[], y: (number | null)[] }} line
 * @param {import("./plot.js").Axes} axes whose half-life is a share of the axis
 * @param {[number, number]} extent of the axis
 * @returns {{ smooth?: number[] }} nothing if it is not to be smoothed
 */
export function smoothed({ x, y }, { smoothing, xType }, extent) {
  if (!smoothing) return {};
  const isLog = xType === "log";
  const [from, to] = isLog ? extent.map(Math.log) : extent;
  return to > from ? { smooth: smooth(x, y, smoothing * (to - from), isLog) } : {};
}

/** @returns {number} the first index, not before `from`, from which on x is at least `at`. */
export function lowerBound(/** @type {number[]} */ x, /** @type {number} */ at, from = 0) {
  let low = from;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** @returns {number} the index of the value nearest to `at`; −1 for an empty array. */
export function nearest(/** @type {number[]} */ x, /** @type {(number | null)[]} */ y, /** @type {number} */ at) {
  let right = lowerBound(x, at);
  let left = right - 1;
  while (right < x.length && y[right] === null) right += 1;
  while (left >= 0 && y[left] === null) left -= 1;
  if (right === x.length) return left;
  return left < 0 || x[right] - at < at - x[left] ? right : left;
}

/**
 * Leave of a part what can be seen: in each column of pixels the smallest and the largest value, in
 * their order, at places that are the same for all lines; and a gap where there is one. What is
 * beside the window is one column each, so that lines go on to its edges.
 * @param {Part} part
 * @param {Window} window
 * @returns {Part}
 */
export function thin(part, { from, to, pixels, isLog }) {
  const { x, y, lows, highs } = part;
  const [placeOf, valueOf] = isLog ? [Math.log, Math.exp] : [Number, Number];
  const start = placeOf(from);
  const width = (placeOf(to) - start) / pixels;
  const first = Math.max(0, lowerBound(x, from) - 1);
  const end = Math.min(x.length, lowerBound(x, to) + 2);
  const thinned = { x: [], y: [], lows: [], highs: [], smooth: part.smooth && [] };
  const put = (share, column, values) => {
    thinned.x.push(valueOf(start + (column + share) * width));
    for (const [name, value] of Object.entries(values)) thinned[name]?.push(value);
  };
  let column = -2;
  for (let i = first; i < end; ) {
    column = Math.max(column + 1, Math.min(pixels, Math.floor((placeOf(x[i]) - start) / width)));
    const begin = i;
    i = column < pixels ? Math.min(end, Math.max(i + 1, lowerBound(x, valueOf(start + (column + 1) * width), i))) : end;
    const [least, most, hasGap] = extremesOf(y, begin, i);
    const low = lows === y ? least : extremesOf(lows, begin, i)[0];
    const high = highs === y ? most : extremesOf(highs, begin, i)[1];
    const band = { lows: lows[low] ?? null, highs: highs[high] ?? null };
    if (least >= 0) put(0.25, column, { y: y[Math.min(least, most)], ...band, smooth: part.smooth?.[begin] });
    if (hasGap) put(0.5, column, { y: null, lows: null, highs: null, smooth: null });
    if (least !== most) put(0.75, column, { y: y[Math.max(least, most)], ...band, smooth: part.smooth?.[i - 1] });
  }
  return thinned;
}

/** @returns {[number, number, boolean]} where the smallest and the largest value are, −1 if there is none, and whether there are gaps. */
function extremesOf(/** @type {(number | null)[]} */ values, /** @type {number} */ begin, /** @type {number} */ end) {
  let least = -1;
  let most = -1;
  let hasGap = false;
  for (let i = begin; i < end; i++) {
    const value = values[i];
    if (value === null) hasGap = true;
    else {
      if (least < 0 || value < values[least]) least = i;
      if (most < 0 || value > values[most]) most = i;
    }
  }
  return [least, most, hasGap];
}
