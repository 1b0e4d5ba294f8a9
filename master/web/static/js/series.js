// The API's series as columns of numbers, and what can be computed from them. Pure.

/**
 * Columns of the same length: times in Unix milliseconds, values, and where a point stands for
 * several, the smallest and the largest of them (else the value itself).
 * @typedef {{ times: number[], values: number[], lows: number[], highs: number[] }} Series
 */

/** @returns {Series} the points of one series as the API writes them; texts are NaN. */
export function toSeries(/** @type {{date: string, value: string, min?: string, max?: string}[]} */ points) {
  const values = points.map((point) => toNumber(point.value));
  return {
    times: points.map((point) => Date.parse(point.date)),
    values,
    lows: points.map((point, i) => (point.min === undefined ? values[i] : toNumber(point.min))),
    highs: points.map((point, i) => (point.max === undefined ? values[i] : toNumber(point.max))),
  };
}

/** @returns {Series} `first` with what `second` has later than its end. */
export function append(/** @type {Series} */ first, /** @type {Series} */ second) {
  const last = first.times.at(-1) ?? -Infinity;
  const start = second.times.findIndex((time) => time > last);
  if (start < 0) return first;
  const join = (name) => first[name].concat(second[name].slice(start));
  return { times: join("times"), values: join("values"), lows: join("lows"), highs: join("highs") };
}

/** @returns {Series} the growth per second of a counter; one that begins anew grows from 0. */
export function rate(/** @type {Series} */ counter) {
  const times = [];
  const values = [];
  for (let i = 1; i < counter.times.length; i++) {
    const seconds = (counter.times[i] - counter.times[i - 1]) / 1000;
    const growth = counter.values[i] - counter.values[i - 1];
    times.push(counter.times[i]);
    values.push((growth >= 0 ? growth : counter.values[i]) / seconds);
  }
  return { times, values, lows: values, highs: values };
}

/**
 * @returns {number[]} for each of `times` the value on the line between the points around it: how
 * far a clock had come that is told now and then. Where it fell back, its value until then; NaN
 * before the first, and after the last the last.
 */
export function between(/** @type {Series} */ clock, /** @type {number[]} */ times) {
  let i = -1;
  return times.map((time) => {
    while (i + 1 < clock.times.length && clock.times[i + 1] <= time) i += 1;
    if (i < 0) return NaN;
    const [value, next] = [clock.values[i], clock.values[i + 1]];
    if (!(next > value)) return value;
    const share = (time - clock.times[i]) / (clock.times[i + 1] - clock.times[i]);
    return value + (next - value) * share;
  });
}

/**
 * @returns {Map<string, Map<number | null, Series>>} an answer of `/api/metrics/{run}/` by metric
 * and rank: `train_loss @ 0` is rank 0's, a name without a rank that of null.
 */
export function byMetric(/** @type {Record<string, object[]>} */ answer) {
  const found = new Map();
  for (const [name, points] of Object.entries(answer)) {
    const { metric, rank } = splitName(name);
    if (!found.has(metric)) found.set(metric, new Map());
    found.get(metric).set(rank, toSeries(points));
  }
  return found;
}

/** @returns {{ metric: string, rank: number | null }} of the API's name of a series. */
export function splitName(/** @type {string} */ name) {
  const found = /^(.*) @ (\d+)$/s.exec(name);
  return found ? { metric: found[1], rank: Number(found[2]) } : { metric: name, rank: null };
}

function toNumber(text) {
  if (text === "+Inf") return Infinity;
  if (text === "-Inf") return -Infinity;
  return text.trim() === "" ? NaN : Number(text);
}
