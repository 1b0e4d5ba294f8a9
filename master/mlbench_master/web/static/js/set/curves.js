// The curves of a set: the target's metric over training time, the mean of each combination.

import { Chart } from "../chart.js";
import { toGroupLines } from "../compare/groups.js";
import { byId, setText } from "../dom.js";
import { isPercent, metricTitle } from "../format.js";
import { styleOf } from "../plot.js";
import { unitOf } from "../run/curves.js";
import { toMarks } from "../side/charts.js";
import { combinationOf, measureOf } from "./answer.js";

/** @import { Comparison, Group, Result } from "../records.js" */

// The bands of more curves would cover each other.
const MAX_CURVES = 5;

export class Curves {
  #section = byId("curves");
  #chart = new Chart(byId("curves-chart"), "Mean of each combination over training time");

  show(/** @type {Comparison} */ { results, groups }) {
    const metric = results.find(({ target, curve }) => target && curve)?.target.metric;
    const shown = results.filter(({ target, curve }) => target?.metric === metric && curve);
    this.#section.hidden = !metric || !shown.length;
    if (this.#section.hidden) return;
    const chosen = fastestFirst(groups).slice(0, MAX_CURVES);
    const isChosen = (/** @type {Result} */ { run_id: id }) => chosen.some(({ run_ids: runs }) => runs.includes(id));
    const drawn = shown.filter(isChosen);
    const longest = Math.max(...drawn.map(({ curve }) => curve.training_seconds.at(-1) ?? 0));
    const { seconds, name } = unitOf(longest);
    const columns = drawn.map(({ curve }) => finite(curve, seconds));
    const lines = toGroupLines(chosen, drawn, columns, {}, () => ({})).map((line, i) => ({
      ...line,
      ...styleOf(i),
      name: combinationOf(chosen.find(({ run_ids: runs }) => runs.includes(line.keys[0])), groups),
      ...(isPercent(metric) && bounded(line)),
    }));
    setText(byId("curves-title"), `${metricTitle(metric)} over training time`);
    byId("curves-title").title = metric;
    const few = groups.length > chosen.length ? `${chosen.length} fastest of ${groups.length} combinations` : "mean of each combination";
    setText(byId("curves-note"), `${few}, 95 % bands`);
    this.#chart.draw(lines, { x: `training time (${name})`, y: metricTitle(metric), ySuffix: isPercent(metric) ? " %" : "", marks: toMarks(shown, metric) });
  }
}

/** @returns {Group[]} groups, the best mean first, and those without a mean last */
export function fastestFirst(/** @type {Group[]} */ groups) {
  const { field, isLessBetter } = measureOf(groups);
  const rank = (/** @type {Group} */ group) => {
    const mean = group[field]?.mean;
    return mean == null ? Infinity : isLessBetter ? mean : -mean;
  };
  return groups.toSorted((a, b) => rank(a) - rank(b));
}

function finite({ training_seconds: x, values: y }, /** @type {number} */ seconds) {
  const places = x.flatMap((at, i) => (at != null && Number.isFinite(at) ? [i] : []));
  return { x: places.map((i) => x[i] / seconds), y: places.map((i) => y[i]) };
}

// An accuracy is from 0 to 100 %, whatever the interval of its mean.
function bounded(/** @type {import("../plot.js").Line} */ { lows, highs }) {
  return { lows: lows.map((low) => Math.max(0, low)), highs: highs.map((high) => Math.min(100, high)) };
}
