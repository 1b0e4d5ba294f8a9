// The answer of a comparison: its best group, and what supports or limits that answer.

import { alignedDurations, alignedNumbers, number, percent, plural } from "../format.js";

/**
 * @import { Comparison, Group } from "../records.js"
 * @typedef {import("../records.js").Schemas["Summary"]} Summary
 *
 * A metric by which groups are compared.
 * @typedef {{ title: string, field: "training_seconds_to_target" | "samples_per_second", unit: string,
 *   isLessBetter: boolean }} Measure
 * @typedef {{ state: "yes" | "warn" | "no" | "", text: string, hint?: string }} Chip
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
const COMPARABLE = /** @type {const} */ ({
  yes: ["yes", "Comparable"],
  disturbed: ["yes", "Comparable"],
  scaling: ["warn", "Comparable, but not by number of workers"],
  unknown: ["warn", "Comparability not known"],
  no: ["no", "Not comparable"],
});

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
 * @param {Group[]} groups whose figures are shown together, so that they have one unit
 * @param {Measure} measure
 * @returns {{ mean: (group: Group) => string, interval: (group: Group) => string }} writes the mean
 *   of a group with its unit, and its interval; an unknown interval is empty
 */
export function writerOf(groups, { field, unit, isLessBetter }) {
  const values = groups.flatMap(({ [field]: summary }) => [summary?.mean, summary?.mean_high]);
  const write = (isLessBetter ? alignedDurations : alignedNumbers)(values);
  return {
    mean: ({ [field]: summary }) => write(summary?.mean ?? null) + (summary?.mean == null ? "" : unit),
    // A range names its unit once.
    interval: ({ [field]: summary }) => {
      const { mean_low: low = null, mean_high: high = null } = summary ?? {};
      return low === null || high === null ? "" : `${write(low).split(" ")[0]} to ${write(high)}`;
    },
  };
}

/**
 * @param {Comparison} comparison
 * @param {boolean} isComplete whether no slot is left
 * @returns {{ title: string, mean: string, interval: string } | null} the best group; null if none
 *   has a figure
 */
export function answerOf({ groups, findings }, isComplete) {
  const measure = measureOf(groups);
  const [first] = bestFirst(groups, measure);
  if (!first) return null;
  const best = findings.fastest ? groups[findings.fastest.group] : first;
  const { mean, interval } = writerOf(groups, measure);
  const word = measure.isLessBetter ? "Fastest" : "Highest throughput";
  const prefix = isComplete ? word : `${word} so far`;
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
  const missed = groups.filter(({ reached, run_ids: runs }) => reached < runs.length).length;
  return [
    ...(results.length > 1 ? [comparabilityOf(comparison)] : []),
    ...leadOf(findings.fastest, groups),
    ...(missed && groups.some(({ reached }) => reached) ? [/** @type {Chip} */ ({ state: "", text: `${missed} of ${plural(groups.length, "combination")} missed the target`, hint: MISSED })] : []),
    ...contention(groups),
  ];
}

/** @returns {Chip[]} */
function leadOf(/** @type {Comparison["findings"]["fastest"]} */ fastest, /** @type {Group[]} */ groups) {
  if (!fastest) return [];
  const { times_faster: times, p, can_tell: canTell, second, second_p: secondP, measure } = fastest;
  const lead = `${number(times, 3)}× the ${measure === MEASURES.time.field ? "slowest" : "lowest"}`;
  if (p === null) return [{ state: "", text: `${lead}, from single runs` }];
  if (!canTell) return [{ state: "", text: `${lead}, too few runs to test`, hint: FEW_RUNS }];
  const chips = [tested(p, p < LEVEL ? `${lead}, ${pText(p)}` : `${lead}, not significant (${pText(p)})`)];
  if (second === null || secondP === null) return chips;
  const name = optionTitle(groups[second].label);
  const ahead = secondP < LEVEL ? `ahead of the second, ${pText(secondP)}` : `no significant lead over ${name} (${pText(secondP)})`;
  return [...chips, tested(secondP, ahead, `${name}. ${CORRECTED}`)];
}

/** @returns {Chip} */
function tested(/** @type {number} */ p, /** @type {string} */ text, hint = CORRECTED) {
  return { state: p < LEVEL ? "yes" : "", text, hint };
}

function pText(/** @type {number} */ p) {
  return p < 0.001 ? "p < 0.001" : `p = ${number(p, 2)}`;
}

/** @returns {Chip[]} */
function contention(/** @type {Group[]} */ groups) {
  const shares = groups.map(({ contention_share: share }) => share).filter((share) => share !== null);
  if (!shares.length) return [];
  const costs = groups.map(({ contention_cost: cost }) => cost).filter((cost) => cost !== null);
  const isHigh = groups.some(({ disturbed }) => disturbed > 0);
  const hint = "Mean over the runs of a combination, of the most affected rank; the cost is an estimate";
  return [{ state: isHigh ? "warn" : "", text: `CPU contention ${spanOf(shares)}, costs about ${spanOf(costs)}`, hint }];
}

/** @returns {string} the range of some shares, such as `2 to 11 %`. */
export function spanOf(/** @type {number[]} */ shares) {
  const [low, high] = [Math.min(...shares), Math.max(...shares)].map((share) => percent(share));
  return low === high ? low : `${low.replace(" %", "")} to ${high}`;
}
