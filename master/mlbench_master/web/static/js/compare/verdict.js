// The verdict on compared runs: a headline, and its reasons folded by kind.

import { h, reconcile } from "../dom.js";
import { number, plural, spans } from "../format.js";
import { comparabilityOf, spanOf } from "./answer.js";

/**
 * @import { Comparison, Group, Manifest } from "../records.js"
 *
 * The reasons of a kind: a text that counts them, and each in a sentence.
 * @typedef {{ term: string, text: string, details: string[], isBad?: boolean }} Fold
 */

// A shorter start of all labels is not worth leaving out.
const LONG_START = 8;
const FAILURES = ["nan", "hung", "crashed"];
const VERSIONS = ["mlbench", "torch", "git_commit"];

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
  // A value that is a word needs no key, such as `exchange`, if all labels have it in the same place.
  const keyOf = (/** @type {string} */ part) => /^(.* )?[^\d\s]\S*$/.exec(part)?.[1];
  const isNamed = (/** @type {string} */ key, /** @type {number} */ i) => key && differing.every((own) => keyOf(own[i] ?? "") === key);
  return differing.map((own) => own.map((part, i) => (isNamed(keyOf(part), i) ? part.slice(keyOf(part).length) : part)).join(", "));
}

// The length of the words that all labels begin with.
function sharedStart(/** @type {string[]} */ labels) {
  const end = [...labels[0]].findIndex((letter, i) => labels.some((label) => label[i] !== letter));
  return Math.max(0, labels[0].slice(0, Math.max(0, end)).search(/[^-_./]*$/));
}

/** @returns {{ title: string, detail: string, others: number }} the most significant difference, and how many other tests there are. */
export function headlineOf(/** @type {Comparison} */ { findings, groups }) {
  const tested = groups.filter(({ evidence }) => evidence?.times_faster != null);
  tested.sort((a, b) => a.evidence.p - b.evidence.p || sizeOf(b) - sizeOf(a));
  const [group] = tested;
  const { fastest } = findings;
  if (findings.verdict === "no" || !(group || fastest)) {
    const [reason = findings.why, ...more] = findings.reasons;
    const detail = capitalized(reason) + (more.length ? `; ${more.length} more` : "");
    return { title: findings.title, detail, others: tested.length };
  }
  const names = shortLabels(groups.map(({ label }) => label));
  if (!group) {
    const title = fasterText(names[fastest.group], names[fastest.slowest], fastest.times_faster);
    return { title, detail: "Single runs have no interval.", others: groups.length - 2 };
  }
  const { baseline, distinguishable, p, test, times_faster: ratio, times_faster_low: low, times_faster_high: high } = group.evidence;
  const pair = [group, groups[baseline]];
  const [name, other] = pair.map((member) => names[groups.indexOf(member)]);
  const factor = (/** @type {number} */ value) => (ratio >= 1 ? value : 1 / value);
  const ends = low === null ? [] : [factor(low), factor(high)].sort((a, b) => a - b);
  const figures = [
    !distinguishable && `${factorText(factor(ratio))}×`,
    ends.length && `95 % ${ends.map(factorText).join(" to ")}`,
    `p = ${number(p, 2)}`,
    test === "paired t" && `${plural(group.run_ids.length, "seed")} each`,
  ];
  const shares = pair.map(({ contention_share: share }) => share).filter((share) => share != null);
  return {
    title: distinguishable
      ? fasterText(...(ratio >= 1 ? [name, other] : [other, name]), factor(ratio))
      : `No significant difference between ${name} and ${other}`,
    detail: `${figures.filter(Boolean).join(", ")}.${shares.length ? ` CPU contention ${spanOf(shares)}.` : ""}`,
    others: tested.length - 1,
  };
}

const factorText = (/** @type {number} */ value) => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
const fasterText = (first, other, factor) => `${first} is ${factorText(factor)}× as fast as ${other}`;
const sizeOf = (/** @type {Group} */ { evidence }) => Math.abs(Math.log(evidence.times_faster));

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
  const tests = groups.map(({ evidence }) => evidence).filter(Boolean);
  const significant = tests.filter(({ distinguishable }) => distinguishable).length;
  const failed = results.filter(({ outcome }) => FAILURES.includes(outcome?.kind));
  const known = [...tests.map(({ text }) => text), ...sets];
  const notes = findings.notes.filter((note) => !known.includes(note) && !failed.some(({ run_id }) => note.startsWith(`run ${run_id}: `)));
  const unequal = differences.filter(({ name }) => VERSIONS.includes(name)).map(({ text }) => text);
  const versions = versionsOf(manifests);
  const hasReasons = findings.reasons.length > 0;
  const folds = [
    results.length > 1 && fold(hasReasons ? "Reasons" : "Task", findings.reasons, "reason", { none: "the same data, target and batch size", isBad: hasReasons }),
    failed.length > 0 && { term: "Outcomes", text: `${failed.length} of ${plural(results.length, "run")} failed`, details: failed.map(({ run_id, outcome }) => `Run ${run_id}: ${outcome.text}`), isBad: true },
    contentionFold(comparison),
    tests.length > 0 && { term: "Significance", text: `${significant} of ${plural(tests.length, "comparison")} with p < 0.05`, details: tests.map(({ text }) => text) },
    seedsFold(groups, seeds),
    fold("Learning", findings.learning.filter((text) => !seeds.size || !text.startsWith("seed is")), "difference"),
    rulesFold(comparison),
    fold("Sets", sets, "set"),
    fold("Clocks", findings.clock_faults, "wrong clock", { isBad: true }),
    fold("Notes", notes, "note"),
    unequal.length > 0
      ? { term: "Versions", text: "not equal", details: unequal, isBad: true }
      : { term: "Versions", text: versions && `${results.length > 1 ? "equal: " : ""}${versions}`, details: [] },
  ];
  return folds.filter((entry) => entry && entry.text).map((entry) => /** @type {Fold} */ (entry));
}

/** @returns {Fold} */
function fold(/** @type {string} */ term, /** @type {readonly string[]} */ texts, /** @type {string} */ noun, { none = "", isBad = false } = {}) {
  if (texts.length < 2) return { term, text: texts[0] ?? none, details: [], isBad };
  return { term, text: plural(texts.length, noun), details: texts.map(capitalized), isBad };
}

// How many ranks had CPU contention, and how much.
function contentionFold(/** @type {Comparison} */ { results, groups, findings }) {
  const ranks = results.flatMap(({ interferences }) => interferences);
  const contended = ranks.filter(({ disturbed }) => disturbed);
  const span = (/** @type {typeof ranks} */ some) => spanOf(some.map(({ contention_share: share }) => share));
  const doubts = groups.filter(({ contention_doubt: doubt }) => doubt).length;
  const suffix = doubts ? `; it may explain ${plural(doubts, "difference")}` : "";
  const highest = ranks.length ? span(ranks).split(" to ").at(-1) : "";
  const text = contended.length
    ? `${contended.length} of ${plural(ranks.length, "rank")} had contention, ${span(contended)}${suffix}`
    : `none of ${plural(ranks.length, "rank")} above 5 %, at most ${highest}`;
  return { term: "Contention", text: ranks.length ? text : "not measured", details: findings.disturbed.map(capitalized), isBad: contended.length > 0 };
}

function seedsFold(/** @type {Group[]} */ groups, /** @type {Map<number, number | null>} */ seeds) {
  const ofGroups = groups.map(({ run_ids }) => run_ids.map((id) => seeds.get(id)));
  if (ofGroups.flat().some((seed) => seed == null)) return null;
  const texts = ofGroups.map((own) => spans([...new Set(own)].sort((a, b) => a - b)));
  if (new Set(texts).size > 1) return { term: "Seeds", text: "not the same in all groups", details: texts.map((text, i) => `${groups[i].label}: ${text}`) };
  const isPaired = groups.some(({ evidence }) => evidence?.test === "paired t");
  return { term: "Seeds", text: `${texts[0]}${groups.length > 1 ? " in every group" : ""}${isPaired ? ", paired" : ""}`, details: [] };
}

// A swept option that leaves the closed division was planned.
function rulesFold(/** @type {Comparison} */ { findings, groups }) {
  const swept = Object.keys(groups[0].swept ?? {});
  const violations = findings.rule_violations;
  const unplanned = violations.filter((text) => !swept.some((key) => text.includes(`: ${key} is `)));
  if (unplanned.length || !violations.length) return fold("Rules", unplanned, "rule violation");
  return { term: "Rules", text: "the swept options leave the closed division, as planned", details: violations.map(capitalized) };
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
