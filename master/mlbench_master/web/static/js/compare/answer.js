// The answer of a comparison: its best group, and what supports or limits that answer.

import { NONE, alignedDurations, alignedNumbers, number, percent, plural } from "../format.js";

/**
 * A metric by which groups are compared.
 * @typedef {{ title: string, field: "training_seconds_to_target" | "wall_seconds_to_target" | "samples_per_second",
 *   unit: string, isLessBetter: boolean }} Measure
 * @typedef {{ state: string, text: string, hint?: string }} Chip
 */

/** @type {Record<"time" | "rate", Measure>} */
export const MEASURES = {
  time: { title: "Time to target", field: "training_seconds_to_target", unit: "", isLessBetter: true },
  rate: { title: "Throughput", field: "samples_per_second", unit: " samples/s", isLessBetter: false },
};
const LEVEL = 0.05;
const FEW_RUNS = "With so few runs, no difference is significant. Plan at least five runs of each combination, with the same seeds.";
const CORRECTED = "Corrected by Bonferroni's method for all pairs of combinations";
const MISSED = "At least one run of each did not reach its target, so that there is no mean";
const CONTENTION = "Mean over the runs of a combination, of the most affected rank; the cost is an estimate";
const COMPARABLE = {
  yes: ["yes", "Comparable"],
  disturbed: ["yes", "Comparable"],
  scaling: ["warn", "Comparable, but not by number of workers"],
  unknown: ["warn", "Comparability not known"],
  no: ["no", "Not comparable"],
};

/** @returns {string} the name of an option: `learning rate` for `learning_rate`. */
export function optionTitle(/** @type {string} */ key) {
  return key.replaceAll("_", " ");
}

/** @returns {boolean} whether a group has a mean of a metric. */
export function hasMean(/** @type {Group} */ group, /** @type {Measure} */ { field }) {
  return group[field]?.mean != null;
}

/** @returns {Measure} the metric of the answer: throughput if no group has a time to target. */
export function measureOf(/** @type {Group[]} */ groups) {
  return groups.some((group) => hasMean(group, MEASURES.time)) ? MEASURES.time : MEASURES.rate;
}

/** @returns {Group[]} the groups with a mean, the best first. */
export function bestFirst(/** @type {Group[]} */ groups, /** @type {Measure} */ measure) {
  const { field, isLessBetter } = measure;
  const known = groups.filter((group) => hasMean(group, measure));
  return known.sort((a, b) => (isLessBetter ? 1 : -1) * (a[field].mean - b[field].mean));
}

/**
 * @returns {Record<"mean" | "interval", (group: Group) => string>} writes figures of groups in one unit: a mean,
 *   and its interval, which is empty if it is unknown
 */
export function writerOf(/** @type {Group[]} */ groups, /** @type {Measure} */ { field, unit, isLessBetter }) {
  const values = groups.flatMap(({ [field]: summary }) => [summary?.mean, summary?.mean_high]);
  const write = (isLessBetter ? alignedDurations : alignedNumbers)(values);
  return {
    mean: ({ [field]: summary }) => (summary?.mean == null ? NONE : write(summary.mean) + unit),
    interval: ({ [field]: summary }) =>
      summary?.mean_low == null || summary.mean_high == null ? "" : rangeText(write(summary.mean_low), write(summary.mean_high)),
  };
}

/** @returns {string} a range that names a unit once: `0.68 to 0.79 s`, but `58 s to 1 min 05 s`. */
export function rangeText(/** @type {string} */ low, /** @type {string} */ high) {
  const unit = /^\S+( \S+)$/.exec(high)?.[1];
  return low === high ? low : `${/^\S+ \S+$/.test(low) && unit && low.endsWith(unit) ? low.slice(0, -unit.length) : low} to ${high}`;
}

/** @returns {Record<"title" | "mean" | "interval", string> | null} the best group so far; null if none has a figure. */
export function answerOf(/** @type {Comparison} */ { groups, findings }, /** @type {boolean} */ isComplete) {
  const measure = measureOf(groups);
  const [first] = bestFirst(groups, measure);
  if (!first) return null;
  const best = findings.fastest ? groups[findings.fastest.group] : first;
  const { mean, interval } = writerOf(groups, measure);
  const prefix = (measure.isLessBetter ? "Fastest" : "Highest throughput") + (isComplete ? "" : " so far");
  const title = groups.length === 1 ? `${measure.title}: ` : `${prefix}: ${optionTitle(best.label)} — `;
  return { title, mean: mean(best), interval: interval(best) };
}

/** @returns {Chip} whether the runs of a comparison can be compared. */
export function comparabilityOf(/** @type {Comparison} */ { findings }) {
  const [state, text] = COMPARABLE[findings.verdict];
  return { state, text, hint: findings.why };
}

/** @returns {Chip[]} what supports or limits the answer of a comparison. */
export function chipsOf(/** @type {Comparison} */ comparison) {
  const { findings, groups, results } = comparison;
  const missed = groups.some(({ reached }) => reached) ? groups.filter(({ reached, run_ids: runs }) => reached < runs.length) : [];
  const measured = groups.filter(({ contention_share: share }) => share !== null);
  const [shares, costs] = ["contention_share", "contention_cost"].map((name) => spanOf(measured.map((group) => group[name])));
  const isHigh = groups.some(({ disturbed }) => disturbed > 0);
  return [
    results.length > 1 && comparabilityOf(comparison),
    ...leadOf(findings.fastest, groups),
    missed.length > 0 && { state: "", text: `${missed.length} of ${plural(groups.length, "combination")} missed the target`, hint: MISSED },
    measured.length > 0 && { state: isHigh ? "warn" : "", text: `CPU contention ${shares}, costs about ${costs}`, hint: CONTENTION },
  ].filter(Boolean);
}

function leadOf(/** @type {Comparison["findings"]["fastest"]} */ fastest, /** @type {Group[]} */ groups) {
  if (!fastest) return [];
  const { times_faster: times, p, can_tell: canTell, second, second_p: secondP, measure } = fastest;
  const lead = `${number(times, 3)}× the ${measure === MEASURES.time.field ? "slowest" : "lowest"}`;
  if (p === null) return [{ state: "", text: `${lead}, from single runs` }];
  if (!canTell) return [{ state: "", text: `${lead}, too few runs to test`, hint: FEW_RUNS }];
  const chip = (/** @type {string} */ text, /** @type {number} */ p) => {
    const figure = p < 0.001 ? "p < 0.001" : `p = ${number(p, 2)}`;
    return { state: p < LEVEL ? "yes" : "", text: `${text}, ${p < LEVEL ? figure : `not significant (${figure})`}`, hint: CORRECTED };
  };
  return [chip(lead, p), ...(secondP === null ? [] : [chip(`ahead of ${optionTitle(groups[second].label)}`, secondP)])];
}

/** @returns {string} the range of some shares, such as `2 to 11 %`. */
export function spanOf(/** @type {number[]} */ shares) {
  return rangeText(percent(Math.min(...shares)), percent(Math.max(...shares)));
}
