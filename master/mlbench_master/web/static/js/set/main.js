// The page of a benchmark set: its answer first, then what supports it, its runs and its plan.

import { get, getOrNull, query } from "../api.js";
import { toPath } from "../compare/loader.js";
import { foldsOf, versionsOf } from "../compare/verdict.js";
import { byId, h, reconcile, setNotice, setText } from "../dom.js";
import { alignedDurations, duration, moment, number, plural } from "../format.js";
import { poll } from "../poll.js";
import { termsOf } from "../runs/groups.js";
import { makeFold } from "../side/verdict.js";
import { errorState, fillTable, runBadge } from "../ui.js";
import { MEASURES, answerOf, chipsOf, combinationOf, measureOf, optionTitle } from "./answer.js";
import { showCells } from "./cells.js";
import { Curves } from "./curves.js";
import { columnsOf, progressText, rowsOf } from "./plan.js";

/**
 * @import { Comparison, Manifest, Result, Schemas } from "../records.js"
 * @typedef {Schemas["RunSet"]} RunSet
 * @typedef {Schemas["SetAnalysis"]} SetAnalysis
 * @typedef {Schemas["Importance"]} Importance
 */

const POLL_MS = 5000;
// As many as the API compares.
const MAX_RUNS = 200;
const MAX_LISTED = 6;
const VERSIONS = ["mlbench", "torch", "git_commit"];

const problem = byId("problem");
const name = problem.dataset.set;
const path = `/api/sets/${encodeURIComponent(name)}/`;
const curves = new Curves();
/** @type {Comparison | null} */
let comparison = null;
let compared = "";

async function refresh() {
  const [set, analysis] = await Promise.all([get(path), get(`${path}analysis/`)]);
  await compare(set, analysis);
  problem.hidden = true;
  byId("set").hidden = false;
  showHead(set, analysis);
  showAnswer(analysis);
  showImportances(analysis);
  showRuns(set);
  return analysis.slots_left ? POLL_MS : null;
}

// Runs that have ended no longer change, so that a comparison is fetched again only for other runs.
async function compare(/** @type {RunSet} */ set, /** @type {SetAnalysis} */ analysis) {
  const ids = analysis.points.map((point) => point.run_id).slice(0, MAX_RUNS);
  for (const link of [byId("compare"), byId("export")]) link.hidden = !ids.length;
  byId("compare").href = `/compare?runs=${ids.join(",")}`;
  byId("export").href = toPath(ids, "");
  byId("export").download = `${name}.json`;
  const key = `${ids} ${analysis.slots_left}`;
  if (key === compared) return;
  if (!ids.length) comparison = null;
  else {
    const [found, first, last] = await Promise.all([getOrNull(toPath(ids, "")), ...[ids[0], ids.at(-1)].map((id) => getOrNull(`/api/runs/${id}/manifest/`))]);
    if (!found) return; // a run was deleted meanwhile
    comparison = found;
    showVerdict(set, first);
    showTime(first, last);
    curves.show(found);
  }
  compared = key;
}

function showHead(/** @type {RunSet} */ set, /** @type {SetAnalysis} */ { slots_left: left, seconds_left: seconds }) {
  const done = set.slots.length - left;
  const badge = byId("progress");
  badge.hidden = false;
  badge.dataset.state = left ? "running" : "complete";
  badge.title = progressText(set);
  setText(badge, `${left ? "running" : "complete"} · ${done} of ${plural(set.slots.length, "slot")}`);
  const time = left > 0 && (seconds === null ? "time left known after the first run" : `about ${duration(seconds)} left`);
  setText(byId("about"), [...aboutOf(set), time].filter(Boolean).join(" · "));
  setText(byId("plan-note"), progressText(set));
}

/** @returns {string[]} what a set measures, and how */
export function aboutOf(/** @type {Pick<RunSet, "order" | "slots" | "official" | "until_percent" | "created_at">} */ { order, slots, official, until_percent: percent, created_at: at }) {
  const { args = {}, faults, benchmark, ...fields } = /** @type {Record<string, any>} */ (order);
  const valuesOf = (/** @type {string} */ key) => new Set(slots.map(({ swept }) => swept[key]));
  const keys = [...new Set(slots.flatMap(({ swept }) => Object.keys(swept)))].filter((key) => valuesOf(key).size > 1);
  const workers = [...new Set(slots.map(({ num_workers: count }) => count))];
  const seeds = new Set(slots.map(({ seed }) => seed)).size;
  const settings = Object.entries({ ...fields, ...args }).filter(([, value]) => value !== null);
  return [
    benchmark,
    keys.map(optionTitle).join(" × "),
    workers.length === 1 ? plural(workers[0], "worker") : `${workers.sort((a, b) => a - b).join(", ")} workers`,
    plural(seeds, "seed"),
    ...settings.map(([key, value]) => `${optionTitle(key)} ${value}`),
    official && "official: every run counts",
    percent && `until ±${percent} %`,
    faults && `fault injection: ${faults}`,
    `registered ${moment(at)}, before its first run`,
  ].filter(Boolean);
}

function showTime(/** @type {Manifest | null} */ first, /** @type {Manifest | null} */ last) {
  const isKnown = first?.started_at && last?.finished_at;
  byId("about").title = isKnown ? `Took ${duration((Date.parse(last.finished_at) - Date.parse(first.started_at)) / 1000)}` : "";
}

function showAnswer(/** @type {SetAnalysis} */ { slots_left: left }) {
  const answer = comparison && answerOf(comparison, left === 0);
  const title = byId("answer-title");
  const parts = answer
    ? [h("span", {}, answer.title), h("b", {}, answer.mean), answer.interval && h("small", {}, ` (95 % ${answer.interval})`)].filter(Boolean)
    : ["No run has a result yet"];
  title.replaceChildren(...parts);
  const chips = comparison ? chipsOf(comparison) : [];
  const makeChip = ({ state, text, hint }) => h("li", { class: "badge", "data-answer": state, title: hint }, text);
  reconcile(byId("answer-chips"), chips, ({ state, text }) => `${state} ${text}`, makeChip);
  byId("answer-chips").hidden = !chips.length;
  byId("cells").hidden = !answer || comparison.groups.length < 2;
  if (!byId("cells").hidden) showMeasure();
}

function showMeasure() {
  const { groups } = comparison;
  const has = (/** @type {import("./answer.js").Measure} */ { field }) => groups.some((group) => group[field]?.mean != null);
  byId("measures").hidden = !has(MEASURES.time) || !has(MEASURES.rate);
  const chosen = /** @type {HTMLInputElement} */ (document.querySelector("[name=measure]:checked")).value;
  const measure = byId("measures").hidden ? measureOf(groups) : MEASURES[chosen];
  const means = groups.map((group) => group[measure.field]?.mean ?? null);
  const known = means.filter((mean) => mean !== null);
  const best = means.indexOf(measure.isLessBetter ? Math.min(...known) : Math.max(...known));
  const sizes = [...new Set(groups.map(({ run_ids: runs }) => runs.length))];
  const hasInterval = groups.some((group) => group[measure.field]?.mean_low != null);
  setText(byId("cells-title"), measure.title);
  const of = sizes.length === 1 ? `mean of ${plural(sizes[0], "run")}` : `means of ${Math.min(...sizes)} to ${Math.max(...sizes)} runs`;
  setText(byId("cells-note"), [of, hasInterval && "95 % interval"].filter(Boolean).join(", "));
  showCells(byId("cells-place"), name, comparison, measure, best);
}

function showImportances(/** @type {SetAnalysis} */ analysis) {
  const { axes, importances, text, is_less_better: isLessBetter } = analysis;
  byId("importances-card").hidden = !axes.length || !importances.length;
  if (byId("importances-card").hidden) return;
  setText(byId("importances-text"), `${optionTitle(text)}.`);
  reconcile(byId("importances"), importances, (effect) => JSON.stringify(effect), (effect) => makeImportance(effect, isLessBetter));
}

function makeImportance(/** @type {Importance} */ { key, value, correlation, low, high }, /** @type {boolean} */ isLessBetter) {
  const place = (rho) => 50 + 50 * rho;
  const piece = h("span", { class: "importance-piece" });
  [piece.style.left, piece.style.width] = [`${Math.min(50, place(correlation))}%`, `${50 * Math.abs(correlation)}%`];
  const whisker = low !== null && h("span", { class: "bar-whisker" });
  if (whisker) [whisker.style.left, whisker.style.width] = [`${place(low)}%`, `${50 * (high - low)}%`];
  const isClear = low !== null && (low > 0 || high < 0);
  const effect = isClear ? `${value ? "it" : "higher"} is ${correlation < 0 === isLessBetter ? "faster" : "slower"}` : "not significant";
  const write = (/** @type {number} */ rho) => rho.toFixed(2).replace("-", "−");
  const interval = low === null ? "" : `, 95 % ${write(low)} to ${write(high)}`;
  const title = [optionTitle(key), value].filter(Boolean).join(" ");
  return h(
    "li",
    { title: `${title}: ρ = ${write(correlation)}${interval}` },
    h("span", {}, title, h("small", { class: "soft" }, effect)),
    h("span", { class: "figure" }, write(correlation)),
    h("span", { class: "importance-track", role: "img", "aria-label": `ρ = ${write(correlation)}${interval}` }, piece, whisker),
  );
}

function showVerdict(/** @type {RunSet} */ { slots }, /** @type {Manifest | null} */ first) {
  const isLone = comparison.results.length < 2;
  byId("verdict-card").hidden = isLone;
  if (isLone) return;
  const [{ state, text }] = chipsOf(comparison);
  setText(byId("verdict-badge"), text);
  byId("verdict-badge").dataset.answer = state;
  const folds = verdictOf(comparison, slots, first);
  reconcile(byId("verdict-folds"), folds, (fold) => JSON.stringify(fold), makeFold);
}

/** @returns {import("../compare/verdict.js").Fold[]} the reasons of a verdict on a set, folded by kind */
export function verdictOf(/** @type {Comparison} */ found, /** @type {RunSet["slots"]} */ slots, /** @type {Manifest | null} */ first) {
  const seeds = slots.flatMap(({ trials }) => trials.map(({ run_id, seed }) => ({ run_id, seed, machines: [], versions: {} })));
  const folds = foldsOf(found, /** @type {any} */ (seeds));
  const kept = folds.filter(({ term }) => !["Sets", "Versions"].includes(term)).map((fold) => (fold.term === "Rules" ? { ...fold, ...rulesOf(found) } : fold));
  const replaced = slots.filter(({ trials }) => trials.length > 1).length;
  const versions = found.differences.filter((difference) => VERSIONS.includes(difference.name));
  return [
    ...kept,
    ...(replaced ? [{ term: "Repeats", text: `${plural(replaced, "slot")} had more than one run`, details: [] }] : []),
    ...(versions.length
      ? [{ term: "Versions", text: "not equal", details: versions.map(({ text }) => text), isBad: true }]
      : first ? [{ term: "Versions", text: `equal: ${versionsOf([first])}`, details: [] }] : []),
  ];
}

// A swept option that leaves the closed division was planned.
function rulesOf(/** @type {Comparison} */ { findings, groups }) {
  const keys = Object.keys(groups[0].swept);
  const unplanned = findings.rule_violations.filter((text) => !keys.some((key) => text.includes(`: ${key} is `)));
  if (!unplanned.length) return { text: "the swept options leave the closed division, as planned", details: [...findings.rule_violations] };
  return { text: unplanned.length === 1 ? unplanned[0] : plural(unplanned.length, "rule violation"), details: unplanned.length > 1 ? unplanned : [] };
}

function showRuns(/** @type {RunSet} */ set) {
  const results = comparison?.results ?? [];
  const rows = rowsOf(set, results);
  fillTable(byId("plan"), columnsOf(rows), rows, ({ slot, trial }) => `${slot.number} ${trial?.run_id ?? "open"}`);
  const timeOf = (/** @type {Result} */ result) => result.time_to_target?.training_seconds ?? Infinity;
  const listed = results.toSorted((a, b) => timeOf(a) - timeOf(b) || (b.samples_per_second ?? 0) - (a.samples_per_second ?? 0)).slice(0, MAX_LISTED);
  const seeds = new Map(set.slots.flatMap(({ trials }) => trials.map(({ run_id, seed }) => [run_id, seed])));
  const write = alignedDurations(listed.map((result) => result.time_to_target?.training_seconds));
  setText(byId("runs-title"), `Runs · ${number(results.length)}`);
  byId("runs-link").href = `/runs${query({ query: termsOf({ set: name }) })}`;
  reconcile(byId("runs"), listed, (result) => `${result.run_id} ${result.outcome?.title}`, (result) => makeRun(result, write, seeds.get(result.run_id)));
  setNotice(byId("runs-note"), results.length > listed.length ? `The ${listed.length} fastest of ${plural(results.length, "run")}.` : results.length ? "" : "No run has a result yet.");
}

function makeRun(/** @type {Result} */ result, /** @type {(seconds: number) => string} */ write, /** @type {number | null | undefined} */ seed) {
  const group = comparison.groups.find(({ run_ids: ids }) => ids.includes(result.run_id));
  const title = [combinationOf(group, comparison.groups, true), seed != null && `seed ${seed}`].filter(Boolean).join(" · ");
  const chip = runBadge({ state: result.state, outcome: result.outcome ?? undefined });
  const seconds = result.time_to_target?.training_seconds;
  if (seconds != null && result.outcome?.kind !== "nan") setText(chip, write(seconds));
  return h("li", {}, h("a", { href: `/runs/${result.run_id}` }, h("bdi", {}, title)), h("span", { class: "soft" }, `#${result.run_id}`), chip);
}

byId("measures").addEventListener("change", showMeasure);
const poller = poll(refresh, (error) => {
  problem.hidden = false;
  byId("set").hidden = true;
  problem.replaceChildren(errorState(error, () => poller.now()));
});
