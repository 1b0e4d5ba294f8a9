// The verdict on compared runs: the best group, what supports or limits that answer, and its reasons by kind.

import { h, reconcile } from "../dom.js";
import { NONE, alignedDurations, alignedNumbers, number, percent, plural, spans } from "../format.js";

/**
 * The reasons of a kind: a text that counts them, and each in a sentence.
 * @typedef {{ term: string, text: string, details: string[], isBad?: boolean }} Fold
 *
 * A metric by which groups are compared.
 * @typedef {{ title: string, field: "training_seconds_to_target" | "wall_seconds_to_target" | "samples_per_second",
 *   unit: string, isLessBetter: boolean }} Measure
 * @typedef {{ state: string, text: string, hint?: string }} Chip
 */

// A shorter start of all names is not worth leaving out.
const LONG_START = 8;
const FAILURES = ["nan", "hung", "crashed"];
const PLANNED = "the swept options leave the closed division, as planned";
const SAME_TASK = "the same data, target and batch size";
const VERSIONS = ["mlbench", "torch", "git_commit"];
/** @type {Record<"time" | "rate", Measure>} */
export const MEASURES = {
  time: { title: "Time to target", field: "training_seconds_to_target", unit: "", isLessBetter: true },
  rate: { title: "Throughput", field: "samples_per_second", unit: " samples/s", isLessBetter: false },
};
const LEVEL = 0.05;
// Maximum ratio of the end of an interval to its start. A wider interval is meaningless.
const MAX_RANGE = 1000;
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

/** @returns {string[]} labels without the parts that all of them share, and without keys of words: `ddp` for `2 workers, exchange ddp`. */
export function shortLabels(/** @type {string[]} */ labels) {
  if (!labels.some((label) => /[ ,]/.test(label))) return withoutStart(labels);
  const parts = labels.map((label) => label.split(", "));
  const differing = parts.map((own) => own.filter((part) => !parts.every((other) => other.includes(part))));
  if (labels.length < 2 || differing.some((own) => !own.length)) return labels;
  // A value that is a word needs no key, such as `exchange`, if all labels have it in the same place.
  const keyOf = (/** @type {string} */ part = "") => /^(.* )?[^\d\s]\S*$/.exec(part)?.[1];
  const shorten = (/** @type {string} */ part, /** @type {number} */ i) =>
    differing.every((own) => keyOf(own[i]) === keyOf(part)) ? part.slice(keyOf(part)?.length ?? 0) : part;
  return differing.map((own) => own.map(shorten).join(", "));
}

// Names of runs keep their start, unless all of them share much of it.
function withoutStart(/** @type {string[]} */ names) {
  const words = names.map((name) => name.split("-"));
  const shared = words[0].findIndex((word, i) => words.some((other) => other[i] !== word || i === other.length - 1));
  const isLong = words[0].slice(0, shared).join("-").length >= LONG_START;
  return isLong ? words.map((own) => `…${own.slice(shared).join("-")}`) : names;
}

/** @returns {{ title: string, detail: string }} the most significant difference, or why there is none. */
export function headlineOf(/** @type {Comparison} */ { findings, groups }) {
  const sizeOf = (/** @type {Group} */ { evidence }) => Math.abs(Math.log(evidence.times_faster));
  const tested = groups.filter(({ evidence }) => evidence?.times_faster != null);
  const [group] = tested.sort((a, b) => a.evidence.p - b.evidence.p || sizeOf(b) - sizeOf(a));
  const { fastest } = findings;
  if (findings.verdict === "no" || !(group || fastest)) {
    const [reason = findings.why, ...more] = findings.reasons;
    return { title: findings.title, detail: capitalized(reason) + (more.length ? `; ${more.length} more` : "") };
  }
  const names = shortLabels(groups.map(({ label }) => optionTitle(label)));
  const factorText = (/** @type {number} */ value) => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
  const fasterText = (first, other, factor) => `${first} is ${factor}× as fast as ${other}`;
  if (!group) {
    const title = fasterText(names[fastest.group], names[fastest.slowest], factorText(fastest.times_faster));
    return { title, detail: "Single runs have no interval." };
  }
  const { baseline, distinguishable, p, test, times_faster: ratio, times_faster_low: low, times_faster_high: high } = group.evidence;
  const [name, other] = [group, groups[baseline]].map((member) => names[groups.indexOf(member)]);
  const [factor, ...ends] = (ratio >= 1 ? [ratio, low, high] : [1 / ratio, 1 / high, 1 / low]).map((value) => value && factorText(value));
  const shares = [group, groups[baseline]].map(({ contention_share: share }) => share).filter((share) => share !== null);
  const figures = [
    !distinguishable && `${factor}×`,
    low !== null && (high < MAX_RANGE * low ? `95 % ${ends.join(" to ")}` : "too few runs for an interval"),
    `p = ${number(p, 2)}`,
    test === "paired t" && `${plural(group.run_ids.length, "seed")} each`,
  ];
  const title = ratio >= 1 ? fasterText(name, other, factor) : fasterText(other, name, factor);
  return {
    title: distinguishable ? title : `No significant difference between ${name} and ${other}`,
    detail: `${figures.filter(Boolean).join(", ")}.${shares.length ? ` CPU contention ${spanOf(shares)}.` : ""}`,
  };
}

/** Show the headline of a comparison, and whether its runs can be compared. */
export function showHeadline(/** @type {HTMLElement} */ place, /** @type {Comparison} */ comparison) {
  const { title, detail } = headlineOf(comparison);
  // Contention is among the reasons, but times are what the headline is about.
  const isDisturbed = comparison.findings.verdict === "disturbed";
  const { state, text } = isDisturbed ? { state: "warn", text: "CPU contention" } : comparabilityOf(comparison);
  const badge = comparison.results.length > 1 && h("span", { class: "badge", "data-answer": state }, text);
  const line = h("p", { class: "headline-title" }, badge, h("b", {}, h("bdi", {}, title)));
  place.replaceChildren(line, h("p", { class: "soft" }, detail));
}

/** Show the reasons of each kind that there are. */
export function showFolds(/** @type {HTMLElement} */ place, /** @type {Fold[]} */ folds) {
  reconcile(place, folds, (fold) => JSON.stringify(fold), ({ term, text, details, isBad }) => {
    const list = h("ul", {}, details.map((line) => h("li", {}, h("bdi", {}, line))));
    const content = details.length ? h("details", {}, h("summary", {}, text), list) : h("bdi", {}, text);
    return h("div", { "data-bad": isBad }, h("dt", {}, term), h("dd", {}, content));
  });
}

/**
 * @param {Comparison} comparison
 * @param {Manifest[]} manifests of some of its runs, for versions
 * @param {Map<number, number | null>} seeds of its runs
 * @returns {Fold[]} the reasons of each kind that there are
 */
export function foldsOf(comparison, manifests, seeds) {
  const { differences, findings, groups, results, sets } = comparison;
  const { reasons, learning, clock_faults: clocks } = findings;
  const isSingle = results.length < 2;
  const tests = groups.map(({ evidence }) => evidence).filter(Boolean);
  const significant = tests.filter(({ distinguishable }) => distinguishable).length;
  const failed = results.filter(({ outcome }) => FAILURES.includes(outcome?.kind));
  const failures = failed.map(({ run_id, outcome }) => `run ${run_id}: ${outcome.text}`);
  const known = [...tests.map(({ text }) => text), ...sets];
  const notes = findings.notes.filter((note) => !known.includes(note) && !failed.some(({ run_id }) => note.startsWith(`run ${run_id}: `)));
  const unequal = differences.filter(({ name }) => VERSIONS.includes(name)).map(({ text }) => text);
  const versions = versionsOf(manifests);
  const equal = versions && !isSingle ? `equal: ${versions}` : versions;
  const isPlanned = (/** @type {string} */ text) => Object.keys(groups[0].swept ?? {}).some((key) => text.includes(`: ${key} is `));
  const violations = findings.rule_violations.map((text) => (isPlanned(text) ? `${text}, as planned` : text));
  const rules = findings.rule_violations.every(isPlanned) ? PLANNED : plural(violations.length, "rule violation");
  const folds = [
    reasons.length ? fold("Reasons", reasons, plural(reasons.length, "reason"), true) : fold("Task", isSingle ? [] : [SAME_TASK]),
    fold("Outcomes", failures, `${failed.length} of ${plural(results.length, "run")} failed`, true),
    contentionFold(comparison),
    fold("Significance", tests.map(({ text }) => text), `${significant} of ${plural(tests.length, "comparison")} with p < 0.05`),
    fold("Seeds", [seedsText(groups, seeds)]),
    fold("Learning", learning, plural(learning.length, "difference")),
    fold("Rules", violations, rules),
    fold("Sets", sets, plural(sets.length, "set")),
    fold("Clocks", clocks, plural(clocks.length, "wrong clock"), true),
    fold("Notes", notes, plural(notes.length, "note")),
    unequal.length ? fold("Versions", unequal, "not equal", true) : fold("Versions", [equal]),
  ];
  return folds.filter(({ text }) => text);
}

/** @returns {Fold} texts, which are hidden at first if there are several; empty without texts. */
function fold(/** @type {string} */ term, /** @type {readonly string[]} */ texts, summary = "", isBad = false) {
  if (texts.length < 2) return { term, text: texts[0] ?? "", details: [], isBad };
  return { term, text: summary, details: texts.map(capitalized), isBad };
}

/** @returns {Fold} how many ranks had CPU contention, and how much. */
function contentionFold(/** @type {Comparison} */ { results, groups, findings }) {
  const ranks = results.flatMap(({ interferences }) => interferences);
  if (!ranks.length) return fold("Contention", ["not measured"]);
  const contended = ranks.filter(({ disturbed }) => disturbed);
  const span = (/** @type {typeof ranks} */ some) => spanOf(some.map(({ contention_share: share }) => share));
  const doubts = groups.filter(({ contention_doubt: doubt }) => doubt).length;
  const suffix = doubts ? `; it may explain ${plural(doubts, "difference")}` : "";
  const text = contended.length
    ? `${contended.length} of ${plural(ranks.length, "rank")} had contention, ${span(contended)}${suffix}`
    : `none of ${plural(ranks.length, "rank")} above 5 %: ${span(ranks)}`;
  return { term: "Contention", text, details: findings.disturbed.map(capitalized), isBad: contended.length > 0 };
}

// Unequal seeds are among the differences of learning.
function seedsText(/** @type {Group[]} */ groups, /** @type {Map<number, number | null>} */ seeds) {
  const [text, ...others] = groups.map(({ run_ids: ids }) => {
    const known = ids.map((id) => seeds.get(id)).filter((seed) => seed != null);
    return known.length < ids.length ? "" : spans([...new Set(known)].sort((a, b) => a - b));
  });
  if (!text || others.some((other) => other !== text)) return "";
  const isPaired = groups.some(({ evidence }) => evidence?.test === "paired t");
  return `${text}${others.length ? " in every group" : ""}${isPaired ? ", paired" : ""}`;
}

/** @returns {string} the versions of MLBench, PyTorch and the code, each once */
export function versionsOf(/** @type {Manifest[]} */ manifests) {
  const machines = manifests.flatMap((manifest) => manifest.machines);
  const each = (/** @type {(string | undefined | null)[]} */ values) => [...new Set(values.filter(Boolean))].join(", ");
  const parts = [
    ["MLBench", each(manifests.map(({ versions }) => versions.mlbench))],
    ["PyTorch", each(machines.map(({ packages }) => packages?.torch))],
    ["commit", each(machines.map(({ git }) => git?.commit?.slice(0, 7)))],
    ["code", each(machines.map(({ code }) => code))],
  ];
  return parts.filter(([, text]) => text).map(([name, text]) => `${name} ${text}`).join(" · ");
}

function capitalized(/** @type {string} */ text) {
  return text && text[0].toUpperCase() + text.slice(1);
}

/** @returns {string} the name of an option: `learning rate` for `learning_rate`. */
export const optionTitle = (/** @type {string} */ key) => key.replaceAll("_", " ");

/** @returns {string} swept values where space is short: `lr 0.1, batch 64`, as in the head of a run. */
export const abbreviated = (/** @type {string} */ text) =>
  optionTitle(text).replaceAll("learning rate", "lr").replaceAll("batch size", "batch");

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
