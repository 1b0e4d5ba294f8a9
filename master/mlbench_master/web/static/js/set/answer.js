// The answer of a benchmark set: its best combination, and what supports or limits that answer.

import { alignedDurations, alignedNumbers, number, percent, plural } from "../format.js";

/**
 * @import { Comparison, Group } from "../records.js"
 * @typedef {import("../records.js").Schemas["Summary"]} Summary
 *
 * A metric by which combinations are compared.
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

/** @returns {string} the combination of a group: the options in which groups differ, with or without their names. */
export function combinationOf(/** @type {Group} */ group, /** @type {Group[]} */ groups, isShort = false) {
  const isScaled = groups.some(({ num_workers: workers }) => workers !== group.num_workers);
  const varied = Object.entries(group.swept).filter(([key, value]) => groups.some(({ swept }) => swept[key] !== value));
  const pairs = varied.map(([key, value]) => (isShort ? value : `${optionTitle(key)} ${value}`));
  return [...pairs, ...(isScaled ? [plural(group.num_workers, "worker")] : [])].join(isShort ? " · " : ", ") || group.label;
}

/** @returns {Measure} the metric of the answer: throughput if no group has a time to target */
export function measureOf(/** @type {Group[]} */ groups) {
  return groups.some((group) => group.training_seconds_to_target?.mean != null) ? MEASURES.time : MEASURES.rate;
}

/**
 * @param {(Summary | null)[]} summaries shown together, so that they have one unit
 * @param {Measure} measure
 * @returns {{ mean: (summary: Summary | null) => string, interval: (summary: Summary | null) => string }}
 *   writes a mean with its unit, and its interval; an unknown interval is empty
 */
export function writerOf(summaries, { unit, isLessBetter }) {
  const values = summaries.flatMap((summary) => [summary?.mean, summary?.mean_high]);
  const write = (isLessBetter ? alignedDurations : alignedNumbers)(values);
  return {
    mean: (summary) => write(summary?.mean ?? null) + (summary?.mean == null ? "" : unit),
    interval(summary) {
      if (summary?.mean_low == null || summary.mean_high == null) return "";
      return rangeOf(write(summary.mean_low), write(summary.mean_high));
    },
  };
}

// A range names a unit once: `0.68 to 0.79 s`, but `58 s to 1 min 05 s`.
function rangeOf(low, high) {
  const [, unit] = high.split(" ");
  const isPlain = (text) => text.split(" ").length === 2 && text.endsWith(` ${unit}`);
  return isPlain(low) && isPlain(high) ? `${low.split(" ")[0]} to ${high}` : `${low} to ${high}`;
}

/**
 * @param {Comparison} comparison
 * @param {boolean} isComplete whether no slot is left
 * @returns {{ title: string, mean: string, interval: string, group: number } | null} the best
 *   combination; null if none has a figure
 */
export function answerOf({ groups, findings }, isComplete) {
  const measure = measureOf(groups);
  const means = groups.map((group) => group[measure.field]?.mean ?? null);
  const known = means.flatMap((mean, i) => (mean === null ? [] : [i]));
  if (!known.length) return null;
  const best = findings.fastest?.group ?? known.reduce((a, b) => (means[b] < means[a] === measure.isLessBetter ? b : a));
  // In the unit of the heat map.
  const write = writerOf(groups.map((group) => group[measure.field]), measure);
  const word = measure.isLessBetter ? "Fastest" : "Highest throughput";
  const prefix = groups.length === 1 ? measure.title : isComplete ? word : `${word} so far`;
  return {
    title: `${prefix}: ${groups.length === 1 ? "" : `${combinationOf(groups[best], groups)} — `}`,
    mean: write.mean(groups[best][measure.field]),
    interval: write.interval(groups[best][measure.field]),
    group: best,
  };
}

/** @returns {Chip[]} what supports or limits the answer of a comparison */
export function chipsOf(/** @type {Comparison} */ { findings, groups, results }) {
  const [state, text] = COMPARABLE[findings.verdict];
  return [
    ...(results.length > 1 ? [{ state, text, hint: findings.why }] : []),
    ...leadOf(findings.fastest, groups),
    ...missed(groups),
    ...contention(groups),
  ];
}

/** @returns {Chip[]} */
function leadOf(/** @type {Comparison["findings"]["fastest"]} */ fastest, /** @type {Group[]} */ groups) {
  if (!fastest) return [];
  const { times_faster: times, p, can_tell: canTell, second, second_p: secondP, measure } = fastest;
  const last = measure === MEASURES.time.field ? "slowest" : "lowest";
  const lead = `${number(times, 3)}× the ${last}`;
  const hint = "Corrected by Bonferroni's method for all pairs of combinations";
  /** @type {Chip[]} */
  const chips = [
    p === null
      ? { state: "", text: `${lead}, from single runs` }
      : !canTell
      ? { state: "", text: `${lead}, too few runs to test`, hint: "With so few runs, no difference is significant. Plan at least five runs of each combination, with the same seeds." }
      : { state: p < LEVEL ? "yes" : "", text: `${lead}, ${p < LEVEL ? pText(p) : `not significant (${pText(p)})`}`, hint },
  ];
  if (canTell && second !== null && secondP !== null)
    chips.push(
      secondP < LEVEL
        ? { state: "yes", text: `ahead of the second, ${pText(secondP)}`, hint: `${combinationOf(groups[second], groups)}. ${hint}` }
        : { state: "", text: `no significant lead over ${combinationOf(groups[second], groups)} (${pText(secondP)})`, hint },
    );
  return chips;
}

function pText(/** @type {number} */ p) {
  return p < 0.001 ? "p < 0.001" : `p = ${number(p, 2)}`;
}

/** @returns {Chip[]} */
function missed(/** @type {Group[]} */ groups) {
  if (!groups.some(({ reached }) => reached)) return [];
  const count = groups.filter(({ reached, run_ids: runs }) => reached < runs.length).length;
  const hint = "At least one run of each did not reach its target, so that there is no mean";
  return count ? [{ state: "", text: `${count} of ${plural(groups.length, "combination")} missed the target`, hint }] : [];
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

function spanOf(/** @type {number[]} */ shares) {
  const [low, high] = [Math.min(...shares), Math.max(...shares)].map((share) => percent(share));
  return low === high ? low : `${low.replace(" %", "")} to ${high}`;
}
