// The verdict on compared runs: a headline, and its reasons folded by kind.

import { count, duration, number, plural, spans } from "../format.js";

/**
 * @import { Comparison, Group, Manifest, Result } from "../records.js"
 *
 * The most significant difference in a sentence, its figures, and how many other tests there are.
 * @typedef {{ state: "yes" | "warn" | "no", badge: string, title: string, detail: string, others: number }} Headline
 *
 * The reasons of a kind: a text that counts them, and each in a sentence.
 * @typedef {{ term: string, text: string, details: string[], isBad?: boolean }} Fold
 */

// A shorter start of all labels is not worth leaving out.
const LONG_START = 8;
const STATES = /** @type {const} */ ({ yes: "yes", scaling: "warn", disturbed: "warn", unknown: "warn", no: "no" });
const BADGES = { yes: "Comparable", scaling: "Not for scaling", disturbed: "CPU contention", unknown: "Not known", no: "Not comparable" };

/**
 * @param {string[]} labels of groups, such as `2 workers, exchange ddp`
 * @returns {string[]} them without the parts that all of them share, and without keys of words
 */
export function shortLabels(labels) {
  const parts = labels.map((label) => label.split(", "));
  const differing = parts.map((own) => own.filter((part) => !parts.every((other) => other.includes(part))));
  if (labels.length < 2 || differing.some((own) => !own.length)) return labels;
  const start = labels.every((label) => !label.includes(",")) ? sharedStart(labels) : 0;
  if (start >= LONG_START) return labels.map((label) => `…${label.slice(start)}`);
  const split = (/** @type {string} */ part) => /^(.*) ([^\d\s]\S*)$/.exec(part) ?? ["", "", part];
  // A value that is a word needs no key, if all of them have one.
  const isNamed = (/** @type {string} */ key) => key && differing.every((own) => own.some((part) => split(part)[1] === key));
  return differing.map((own) => own.map((part) => (isNamed(split(part)[1]) ? split(part)[2] : part)).join(", "));
}

// The length of the words that all labels begin with.
function sharedStart(/** @type {string[]} */ labels) {
  const end = [...labels[0]].findIndex((letter, i) => labels.some((label) => label[i] !== letter));
  return Math.max(0, labels[0].slice(0, Math.max(0, end)).search(/[^-_./]*$/));
}

/** @returns {Headline} what a comparison found, the most significant difference first */
export function headlineOf(/** @type {Comparison} */ { findings, groups, results }) {
  const state = STATES[findings.verdict];
  const badge = results.length > 1 ? BADGES[findings.verdict] : "";
  const tested = groups.filter(({ evidence }) => evidence?.times_faster != null);
  tested.sort((a, b) => a.evidence.p - b.evidence.p || sizeOf(b) - sizeOf(a));
  if (findings.fastest && !tested.length) {
    const [first, last] = [findings.fastest.group, findings.fastest.slowest];
    const names = shortLabels(groups.map(({ label }) => label));
    const [time, longest] = [first, last].map((i) => duration(groups[i].training_seconds_to_target.mean));
    const title = `${names[first]} is ${factorText(findings.fastest.times_faster)}× as fast as ${names[last]}`;
    return { state, badge, title, detail: `${time} and ${longest} to the target; single runs have no interval.`, others: groups.length - 2 };
  }
  if (findings.verdict === "no" || !tested.length) {
    const reasons = [...findings.reasons, findings.why].filter(Boolean);
    const more = findings.reasons.length > 1 ? `; ${count(findings.reasons.length - 1)} more` : "";
    return { state, badge, title: findings.title, detail: capitalized(reasons[0] ?? "") + more, others: tested.length };
  }
  const [group] = tested;
  return { state, badge, ...comparisonOf(group, groups, results), others: tested.length - 1 };
}

const factorText = (/** @type {number} */ value) => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
const sizeOf = (/** @type {Group} */ { evidence }) => Math.abs(Math.log(evidence.times_faster));

// A significance test in words, with the faster group first.
function comparisonOf(/** @type {Group} */ group, /** @type {Group[]} */ groups, /** @type {Result[]} */ results) {
  const { baseline, distinguishable, p, test, times_faster: ratio, times_faster_low: low, times_faster_high: high } = group.evidence;
  const isFaster = ratio >= 1;
  const labels = [group.label, groups[baseline].label];
  const both = shortLabels(labels);
  const [first, second] = isFaster ? both : both.toReversed();
  const factor = (value) => factorText(isFaster ? value : 1 / value);
  const ends = low == null ? [] : [factor(low), factor(high)].sort((a, b) => Number(a) - Number(b));
  const runs = [group, groups[baseline]].map(({ run_ids }) => run_ids.length);
  const size = runs[0] === runs[1] ? `${plural(runs[0], test === "paired t" ? "seed" : "run")} each` : `${runs[0]} and ${plural(runs[1], "run")}`;
  const ofBoth = results.filter(({ run_id }) => [group, groups[baseline]].some(({ run_ids }) => run_ids.includes(run_id)));
  const figures = [
    distinguishable ? "" : `${factor(ratio)}×`,
    ends.length ? `95 % ${ends.join(" to ")}` : "",
    `p = ${number(p, 2)}`,
    size,
  ];
  // What both have in common tells them from the other groups.
  const shared = labels[0].split(", ").filter((part) => labels[1].split(", ").includes(part) && !groups.every(({ label }) => label.split(", ").includes(part)));
  const context = shared.length ? ` (${shared.join(", ")})` : "";
  return {
    title: distinguishable
      ? `${first} is ${factor(ratio)}× as fast as ${second}${context}`
      : `No significant difference between ${both[0]} and ${both[1]}${context}`,
    detail: [`${figures.filter(Boolean).join(", ")}.`, contentionText(ofBoth)].filter(Boolean).join(" "),
  };
}

/** @returns {string} the range of CPU contention of runs; empty if it was not measured */
export function contentionText(/** @type {Pick<Result, "contention_share">[]} */ results) {
  const shares = results.map(({ contention_share: share }) => share).filter((share) => share != null);
  return shares.length ? `CPU contention ${rangeText(shares)}.` : "";
}

function rangeText(/** @type {number[]} */ shares) {
  const [low, high] = [Math.min(...shares), Math.max(...shares)].map((share) => (100 * share).toFixed(0));
  return low === high ? `${low} %` : `${low} to ${high} %`;
}

/**
 * @param {Comparison} comparison
 * @param {Manifest[]} [manifests] of its runs, for seeds and versions
 * @returns {Fold[]} the reasons of each kind that there are
 */
export function foldsOf(comparison, manifests = []) {
  const { findings, groups, results } = comparison;
  const tests = groups.map(({ evidence }) => evidence).filter(Boolean);
  const significant = tests.filter(({ distinguishable }) => distinguishable).length;
  const isLone = results.length < 2;
  const outcomes = results.filter(({ outcome }) => ["nan", "hung", "crashed"].includes(outcome?.kind));
  const ofOutcomes = outcomes.map(({ run_id, outcome }) => `Run ${run_id}: ${outcome.text}`);
  const known = new Set([...tests.map(({ text }) => text), ...comparison.sets]);
  const notes = findings.notes.filter((note) => !known.has(note) && !outcomes.some(({ run_id }) => note.startsWith(`run ${run_id}: `)));
  const isOfSeeds = (/** @type {string} */ text) => manifests.length > 0 && text.startsWith("seed is");
  const learning = findings.learning.filter((text) => !isOfSeeds(text));
  const versions = versionsOf(manifests);
  /** @type {(Fold | false)[]} */
  const folds = [
    !isLone && { term: findings.reasons.length ? "Reasons" : "Task", ...folded(findings.reasons, "reason", findings.verdict === "no" ? "" : "the same data, target and batch size"), isBad: findings.reasons.length > 0 },
    outcomes.length > 0 && { term: "Outcomes", text: `${outcomes.length} of ${plural(results.length, "run")} failed`, details: ofOutcomes, isBad: true },
    contentionFold(comparison),
    tests.length > 0 && { term: "Significance", text: `${significant} of ${plural(tests.length, "comparison")} with p < 0.05`, details: tests.map(({ text }) => text) },
    seedsFold(groups, manifests, findings.learning),
    learning.length > 0 && { term: "Learning", ...folded(learning, "difference") },
    findings.rule_violations.length > 0 && { term: "Rules", ...folded(findings.rule_violations, "rule violation") },
    comparison.sets.length > 0 && { term: "Sets", ...folded(comparison.sets, "set") },
    findings.clock_faults.length > 0 && { term: "Clocks", ...folded(findings.clock_faults, "wrong clock"), isBad: true },
    notes.length > 0 && { term: "Notes", ...folded(notes, "note") },
    versions !== "" && { term: "Versions", text: versions, details: [] },
  ];
  return folds.filter((fold) => fold !== false && fold.text !== "").map((fold) => /** @type {Fold} */ (fold));
}

function folded(/** @type {readonly string[]} */ texts, /** @type {string} */ noun, none = "") {
  if (texts.length < 2) return { text: texts[0] ?? none, details: [] };
  return { text: plural(texts.length, noun), details: texts.map(capitalized) };
}

/** @returns {Fold} how many ranks had CPU contention, and how much */
function contentionFold(/** @type {Comparison} */ { results, groups, findings }) {
  const ranks = results.flatMap(({ interferences }) => interferences);
  const contended = ranks.filter(({ disturbed }) => disturbed);
  const sharesOf = (/** @type {typeof ranks} */ some) => some.map(({ contention_share }) => contention_share);
  const doubts = groups.map(({ contention_doubt }) => contention_doubt).filter(Boolean);
  const suffix = doubts.length ? `; it may explain ${plural(doubts.length, "difference")}` : "";
  const highest = ranks.length ? `, at most ${rangeText([Math.max(...sharesOf(ranks))])}` : "";
  const text = contended.length
    ? `${contended.length} of ${plural(ranks.length, "rank")} had contention, ${rangeText(sharesOf(contended))}${suffix}`
    : `none of ${plural(ranks.length, "rank")} above 5 %${highest}`;
  return { term: "Contention", text: ranks.length ? text : "not measured", details: findings.disturbed.map(capitalized), isBad: contended.length > 0 };
}

function seedsFold(/** @type {Group[]} */ groups, /** @type {Manifest[]} */ manifests, learning) {
  const seedOf = new Map(manifests.map(({ run_id, seed }) => [run_id, seed]));
  const ofGroups = groups.map(({ run_ids }) => run_ids.map((id) => seedOf.get(id)).sort((a, b) => a - b));
  if (!manifests.length || ofGroups.flat().some((seed) => seed == null)) return false;
  const texts = [...new Set(ofGroups.map((seeds) => spans([...new Set(seeds)])))];
  if (texts.length > 1) return { term: "Seeds", text: "not the same in all groups", details: learning.filter((text) => text.startsWith("seed is")) };
  const isPaired = groups.some(({ evidence }) => evidence?.test === "paired t");
  return { term: "Seeds", text: `${texts[0]}${groups.length > 1 ? " in every group" : ""}${isPaired ? ", paired" : ""}`, details: [] };
}

/** @returns {string} the versions of MLBench, PyTorch and the code, each once */
export function versionsOf(/** @type {Manifest[]} */ manifests) {
  const machines = manifests.flatMap((manifest) => manifest.machines);
  const each = (/** @type {(string | undefined | null)[]} */ values) => [...new Set(values.filter(Boolean))].join(", ");
  const parts = [
    ["MLBench", each(manifests.map(({ versions }) => versions.mlbench))],
    ["PyTorch", each(machines.map(({ packages }) => packages?.torch))],
    ["commit", each(machines.map(({ git }) => git?.commit?.slice(0, 7)))],
  ];
  return parts.filter(([, text]) => text).map(([name, text]) => `${name} ${text}`).join(" · ");
}

function capitalized(/** @type {string} */ text) {
  return text && text[0].toUpperCase() + text.slice(1);
}
