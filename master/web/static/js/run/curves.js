// What is drawn of recorded series: which ranks, along which axis, in which charts. Pure.

import { PHASES } from "../names.js";
import { between } from "../series.js";

/** @typedef {import("../series.js").Series} Series */

const TOTALS = /^(step|epoch|samples|train_seconds)$/;
const PHASE_TOTALS = new Set(PHASES.map((phase) => `${phase}_seconds`));
const ACCURACY = /(^|_)(Prec@\d+|R2|acc|accuracy)$/;
const UNITS = [
  { seconds: 86_400, from: 3 * 86_400, name: "days" },
  { seconds: 3600, from: 3 * 3600, name: "hours" },
  { seconds: 60, from: 300, name: "minutes" },
  { seconds: 1, from: 0, name: "seconds" },
];

/**
 * Say which charts a run's training is shown in, at first.
 * @param {string[]} metrics that it has recorded
 * @param {string | null} goal the metric of its goal
 * @returns {{ title: string, metrics: string[] }[]}
 */
export function chartsOf(metrics, goal) {
  const curves = curvesOf(metrics);
  const losses = curves.filter((name) => /loss/i.test(name));
  const accuracies = curves.filter((name) => ACCURACY.test(name) && isLike(name, goal));
  const charts = [
    { title: "Loss", metrics: losses },
    {
      title: accuracies.every((name) => /R2$/.test(name)) ? "R²" : "Accuracy",
      metrics: accuracies,
    },
  ];
  const isShown = charts.some((chart) => chart.metrics.includes(goal));
  if (goal && curves.includes(goal) && !isShown) charts.push({ title: goal, metrics: [goal] });
  return charts.filter((chart) => chart.metrics.length);
}

/** @returns {string[]} the metrics that make a curve of their own: no totals, which only grow. */
export function curvesOf(/** @type {string[]} */ metrics) {
  return metrics.filter((name) => !TOTALS.test(name) && !PHASE_TOTALS.has(name)).sort();
}

// Beside a top-1 accuracy, one of the five likeliest is close to 100 % and tells little.
function isLike(name, goal) {
  const kind = (text) => /@(\d+)$/.exec(text ?? "")?.[1] ?? "1";
  return kind(name) === kind(goal);
}

/**
 * One curve from those of several ranks: at each point of `grid`, what each has nearest to it; of
 * one that is farther away than the next point, nothing.
 * @param {Series} grid one of them, such as the longest
 * @param {Series[]} all of them
 * @param {(values: number[]) => number} reduce to the value that is drawn
 * @returns {Series} with the range of all as its lows and highs
 */
export function combine(grid, all, reduce) {
  const places = all.map(() => 0);
  const joined = { times: grid.times, values: [], lows: [], highs: [] };
  grid.times.forEach((time, point) => {
    const reach = reachOf(grid.times, point);
    const near = all.map((one, i) => {
      places[i] = nearest(one.times, time, places[i]);
      return { one, at: places[i] };
    });
    const known = near.filter(
      ({ one, at }) => Number.isFinite(one.values[at]) && Math.abs(one.times[at] - time) <= reach,
    );
    const column = (name) => known.map(({ one, at }) => one[name][at]);
    joined.values.push(known.length ? reduce(column("values")) : NaN);
    joined.lows.push(known.length ? Math.min(...column("lows")) : NaN);
    joined.highs.push(known.length ? Math.max(...column("highs")) : NaN);
  });
  return joined;
}

/** @returns {number} */
export function mean(/** @type {number[]} */ values) {
  return sum(values) / values.length;
}

/** @returns {number} */
export function sum(/** @type {number[]} */ values) {
  return values.reduce((total, value) => total + value, 0);
}

/** @returns {boolean} whether ranks recorded the same, as they do of what they compute together. */
export function areSame(/** @type {Series[]} */ all) {
  const length = Math.min(...all.map((one) => one.values.length));
  // Those of a rank may come a moment later.
  if (all.some((one) => one.values.length > length + 1)) return false;
  const [first] = all;
  return all.every((one) => {
    for (let i = 0; i < length; i++) if (one.values[i] !== first.values[i]) return false;
    return true;
  });
}

/**
 * @returns {number[]} what a counter was at each of `times`, in between by proportion. Of a point
 *   that stands for several, the smallest is that of its time.
 */
export function counterAt(/** @type {Series} */ counter, /** @type {number[]} */ times) {
  return between({ ...counter, values: counter.lows }, times);
}

/**
 * @param {string | null} startedAt when the run began
 * @param {number} until the last millisecond that is shown
 * @returns {{ title: string, place: (times: number[]) => number[] }} the axis of the time since
 *   then, in a unit that suits its length
 */
export function timeAxis(startedAt, until) {
  const start = startedAt ? Date.parse(startedAt) : until;
  const unit = UNITS.find(({ from }) => (until - start) / 1000 >= from) ?? UNITS.at(-1);
  return {
    title: `Time since the start (${unit.name})`,
    place: (times) => times.map((time) => (time - start) / 1000 / unit.seconds),
  };
}

/** @returns {Series} with a gap at each of `moments`: no line leads from attempt to attempt. */
export function withGaps(/** @type {Series} */ series, /** @type {number[]} */ moments) {
  const gaps = moments
    .map((moment) => series.times.findIndex((time) => time >= moment))
    .filter((place) => place > 0);
  if (!gaps.length) return series;
  const columns = Object.entries(series).map(([name, column]) => {
    const cut = [...column];
    for (const place of gaps.toReversed())
      cut.splice(place, 0, name === "times" ? column[place] : NaN);
    return [name, cut];
  });
  return Object.fromEntries(columns);
}

function reachOf(times, i) {
  const gaps = [times[i] - times[i - 1], times[i + 1] - times[i]].filter(Number.isFinite);
  return gaps.length ? Math.max(...gaps) : Infinity;
}

function nearest(times, time, from) {
  let i = from;
  while (i + 1 < times.length && Math.abs(times[i + 1] - time) <= Math.abs(times[i] - time)) i += 1;
  return i;
}
