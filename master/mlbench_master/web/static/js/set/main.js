// The page of a benchmark set: plan, ledger, analysis and remaining runs.

import { get, getOrNull } from "../api.js";
import { Sweep } from "../compare/sweep.js";
import { toPath } from "../compare/loader.js";
import { showVerdict } from "../compare/verdict.js";
import { byId, h, reconcile, setText } from "../dom.js";
import { duration, number, plural } from "../format.js";
import { poll } from "../poll.js";
import { sweptOf } from "../records.js";
import { badge, errorState, figure, fillTable } from "../ui.js";
import { drawParallel } from "./parallel.js";

/**
 * @typedef {import("../records.js").Schemas["RunSet"]} RunSet
 * @typedef {import("../records.js").Schemas["Slot"]} Slot
 * @typedef {import("../records.js").Schemas["Importance"]} Effect
 * @typedef {import("./parallel.js").SetAnalysis} SetAnalysis
 */

const POLL_MS = 5000;
// As many as the API compares.
const MAX_RUNS = 200;

const problem = byId("problem");
const path = `/api/sets/${encodeURIComponent(problem.dataset.set)}/`;
const sweep = new Sweep();
let compared = "";

async function refresh() {
  const [set, analysis] = await Promise.all([get(path), get(`${path}analysis/`)]);
  problem.hidden = true;
  byId("set").hidden = false;
  setText(byId("state-title"), leftText(analysis));
  setText(byId("ledger"), `${set.text}.`);
  setText(byId("order"), orderText(set));
  fillTable(byId("plan"), planColumns(set), set.slots, ({ number }) => number);
  showEffects(analysis);
  await showComparison(analysis.points.map((point) => point.run_id).slice(0, MAX_RUNS));
  return analysis.slots_left ? POLL_MS : null;
}

/** @returns {string} how much is left, and how long it will take. */
export function leftText(/** @type {SetAnalysis} */ { slots_left: left, seconds_left: seconds }) {
  if (!left) return "All runs done";
  const time = seconds === null ? "time known after the first run" : `about ${duration(seconds)}`;
  return `${plural(left, "slot")} left: ${time}`;
}

function orderText(/** @type {RunSet} */ { order, official, until_percent: percent }) {
  const { args = {}, faults, ...fields } = /** @type {Record<string, any>} */ (order);
  const pairs = Object.entries({ ...fields, ...args }).map(([key, value]) => `${key} ${value}`);
  const rules = [official && "official: every run counts", percent && `until ±${percent} %`];
  return [...pairs, ...rules, faults && `fault injection: ${faults}`].filter(Boolean).join(" · ");
}

function showEffects(/** @type {SetAnalysis} */ analysis) {
  const { axes, importances, measure, text } = analysis;
  byId("importances-card").hidden = !axes.length || !importances.length;
  if (byId("importances-card").hidden) return;
  setText(byId("importances-title"), text);
  const note = `Spearman's rank correlation with the ${measure}, from -1 to 1, with a 95 % confidence interval.`;
  setText(byId("importances-note"), note);
  fillTable(byId("importances"), importanceColumns(analysis), importances, ({ key, value }) => `${key} ${value}`);
  drawParallel(byId("parallel"), analysis);
}

/** @returns {import("../ui.js").Column<Effect>[]} */
export function importanceColumns(/** @type {SetAnalysis} */ { is_less_better: lessIsBetter }) {
  const word = ({ correlation }) => (correlation < 0 === lessIsBetter ? "faster" : "slower");
  const isClear = ({ low, high }) => low !== null && (low > 0 || high < 0);
  return [
    { title: "Option", isHead: true, text: ({ key, value }) => [key, value].filter(Boolean).join(" ") },
    figure("Correlation", ({ correlation }) => number(correlation, 2)),
    figure("95 % interval", ({ low, high }) => (low === null ? "" : `${number(low, 2)} to ${number(high, 2)}`)),
    { title: "Higher is", text: (effect) => (isClear(effect) ? word(effect) : "not significant") },
  ];
}

async function showComparison(/** @type {number[]} */ ids) {
  const link = byId("compare");
  link.hidden = !ids.length;
  link.href = `/compare?runs=${ids.join(",")}`;
  if (!ids.length || compared === link.href) return;
  const comparison = await getOrNull(toPath(ids, ""));
  byId("verdict").hidden = !comparison;
  if (!comparison) return; // a run was deleted meanwhile
  compared = link.href;
  showVerdict(comparison);
  sweep.show(comparison);
}

/** @returns {import("../ui.js").Column<Slot>[]} */
function planColumns(/** @type {RunSet} */ { slots }) {
  const swept = slots.some((slot) => sweptOf(slot));
  return [
    figure("Slot", (slot) => String(slot.number)),
    { title: "Runs of", isHead: true, text: (slot) => sweptOf(slot) || slot.name },
    ...(swept ? [{ title: "Name", text: (slot) => slot.name }] : []),
    figure("Workers", (slot) => String(slot.num_workers)),
    figure("Seed", (slot) => String(slot.seed ?? "")),
    { title: "Runs", fill: fillTrials },
  ];
}

function fillTrials(/** @type {Element} */ cell, /** @type {Slot} */ { trials, is_open: isOpen }) {
  const parts = trials.map((run) => ({ key: `${run.run_id} ${run.state} ${run.remark}`, run }));
  const open = isOpen ? [{ key: "open", run: null }] : [];
  reconcile(cell, [...parts, ...open], ({ key }) => key, ({ run }) => {
    if (!run) return h("div", { class: "soft" }, "open");
    const name = run.deleted ? `run ${run.run_id}` : h("a", { href: `/runs/${run.run_id}` }, `run ${run.run_id}`);
    return h("div", {}, name, " ", badge(run.state), run.counts ? " counts" : "", run.remark && ` ${run.remark}`);
  });
}

const poller = poll(refresh, (error) => {
  problem.hidden = false;
  byId("set").hidden = true;
  problem.replaceChildren(errorState(error, () => poller.now()));
});
