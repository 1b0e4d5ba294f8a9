// The page of a benchmark set: its verdict first, then the evidence, its runs and its plan.

import { get, getOrNull, post, query } from "../api.js";
import { Chart } from "../chart.js";
import { drawCurves } from "../compare/curves.js";
import { ofResult, toPath } from "../compare/loader.js";
import { showCells } from "../compare/results.js";
import { answerOf, bestFirst, chipsOf, comparabilityOf, foldsOf, measureOf, optionTitle, showFolds } from "../compare/verdict.js";
import { byId, h, reconcile, setText } from "../dom.js";
import { duration, metricTitle, moment, plural } from "../format.js";
import { styleOf } from "../plot.js";
import { poll } from "../poll.js";
import { urlOf } from "../root.js";
import { termsOf } from "../runs/groups.js";
import { fillTable, problemWith, setBadge } from "../ui.js";
import { columnsOf, lastColumns, progressOf, progressText, rowsOf, sweptIn } from "./plan.js";

const POLL_MS = 5000;
// As many as the API compares.
const MAX_RUNS = 200;
// The bands of more curves would cover each other.
const MAX_CURVES = 5;

const name = byId("problem").dataset.set;
const path = `/api/sets/${encodeURIComponent(name)}/`;
const curves = new Chart(byId("curves-chart"), "Mean of each combination over training time");
/** @type {Comparison | null} */
let comparison = null;
let compared = "";

async function refresh() {
  const [set, analysis] = await Promise.all([get(path), get(`${path}analysis/`)]);
  await compare(set, analysis);
  byId("problem").replaceChildren();
  byId("set").hidden = false;
  showHead(set, analysis);
  showAnswer(analysis);
  showImportances(analysis);
  showPlan(set);
  return analysis.slots_left ? POLL_MS : null;
}

// Runs that have ended no longer change, so that a comparison is fetched again only for other runs.
async function compare(/** @type {RunSet} */ set, /** @type {SetAnalysis} */ analysis) {
  const ids = analysis.points.map((point) => point.run_id).slice(0, MAX_RUNS);
  const key = `${ids} ${analysis.slots_left}`;
  if (key === compared || !ids.length) return;
  const [found, first] = await Promise.all([getOrNull(toPath(ids)), getOrNull(`/api/runs/${ids[0]}/manifest/`)]);
  if (!found) return; // a run was deleted meanwhile
  [comparison, compared] = [found, key];
  for (const [link, href] of [[byId("compare"), `/compare?runs=${ids.join(",")}`], [byId("export"), toPath(ids)]]) {
    link.href = urlOf(href);
    link.hidden = false;
  }
  byId("export").download = `${name}.json`;
  showVerdict(set, first);
  showCurves(found);
}

function showHead(/** @type {RunSet} */ set, /** @type {SetAnalysis} */ { slots_left: left, seconds_left: seconds }) {
  const order = /** @type {Record<string, any>} */ (set.order);
  const { args = {}, faults, benchmark, num_cpus: cores, image_name: _, custom_image_name: image, custom_image_command: command, ...fields } = order;
  const [workers, seeds] = ["num_workers", "seed"].map((name) => new Set(set.slots.map((slot) => slot[name])));
  const settings = Object.entries({ ...fields, ...args }).filter(([, value]) => value !== null);
  const about = [
    benchmark || command,
    image && image !== "local" && `image ${image}`,
    sweptIn(set),
    workers.size === 1 && plural([...workers][0], "worker"),
    cores && `${plural(cores, "core")} each`,
    plural(seeds.size, "seed"),
    ...settings.map(([key, value]) => `${optionTitle(key)} ${value}`),
    set.official && "official: every run counts",
    set.until_percent && `until ±${set.until_percent} %`,
    faults && `fault injection: ${faults}`,
    `registered ${moment(set.created_at)}, before its first run`,
    left > 0 && (seconds === null ? "time left known after the first run" : `about ${duration(seconds)} left`),
    set.reason,
  ];
  setText(byId("about"), about.filter(Boolean).join(" · "));
  setText(byId("plan-note"), progressText(set));
  byId("stop").hidden = set.state !== "running";
  byId("resume").hidden = left > 0 || !set.slots.some((slot) => slot.is_open);
  setBadge(byId("progress"), ...progressOf(set));
}

function showAnswer(/** @type {SetAnalysis} */ { slots_left: left, last_values: values }) {
  const answer = comparison && answerOf(comparison, left === 0);
  const interval = answer?.interval && h("small", {}, ` (95 % ${answer.interval})`);
  const parts = answer ? [h("span", {}, answer.title), h("b", {}, answer.mean), interval] : [values.length ? "Last values of each combination" : "No run has a result yet"];
  byId("answer-title").replaceChildren(...parts.filter(Boolean));
  byId("values-part").hidden = !!answer || !values.length;
  fillTable(byId("values"), lastColumns(values), values, ({ name }) => [name]);
  const chips = comparison ? chipsOf(comparison) : [];
  const makeChip = ({ state, text, hint }) => h("li", { class: "badge", "data-answer": state, title: hint }, text);
  reconcile(byId("answer-chips"), chips, ({ state, text }) => `${state} ${text}`, makeChip);
  byId("answer-chips").hidden = !chips.length;
  byId("cells").hidden = !answer || comparison.groups.length < 2;
  if (!byId("cells").hidden) showCells(comparison, listOf);
}

// The list of a combination's runs.
function listOf(/** @type {Group} */ { swept, num_workers: workers }) {
  const values = Object.entries(swept).map(([key, value]) => `${key}=${value}`).join(", ");
  return `/runs${query({ query: termsOf({ set: name, ...(values && { swept: values }), workers: String(workers) }) })}`;
}

function showImportances(/** @type {SetAnalysis} */ { axes, importances, text, is_less_better: isLessBetter }) {
  byId("importances-card").hidden = !axes.length || !importances.length;
  setText(byId("importances-text"), `${optionTitle(text)}.`);
  const write = (/** @type {number} */ rho) => rho.toFixed(2).replace("-", "−");
  const track = (/** @type {string} */ kind, /** @type {number} */ from, /** @type {number} */ to) =>
    h("span", { class: kind, style: { left: `${50 + 50 * from}%`, width: `${50 * (to - from)}%` } });
  reconcile(byId("importances"), importances, (effect) => JSON.stringify(effect), ({ key, value, correlation, low, high }) => {
    const isClear = low !== null && (low > 0 || high < 0);
    const effect = isClear ? `${value ? "it" : "higher"} is ${correlation < 0 === isLessBetter ? "faster" : "slower"}` : "not significant";
    const figure = `ρ = ${write(correlation)}${low === null ? "" : `, 95 % ${write(low)} to ${write(high)}`}`;
    const title = [optionTitle(key), value].filter(Boolean).join(" ");
    const piece = track("importance-piece", Math.min(0, correlation), Math.max(0, correlation));
    const whisker = low !== null && track("bar-whisker", low, high);
    return h(
      "li",
      { title: `${title}: ${figure}` },
      h("span", {}, title, h("small", { class: "soft" }, effect)),
      h("span", { class: "figure" }, write(correlation)),
      h("span", { class: "importance-track", role: "img", "aria-label": figure }, piece, whisker),
    );
  });
}

function showVerdict(/** @type {RunSet} */ set, /** @type {Manifest | null} */ first) {
  byId("verdict-card").hidden = comparison.results.length < 2;
  const { state, text } = comparabilityOf(comparison);
  setText(byId("verdict-badge"), text);
  byId("verdict-badge").dataset.answer = state;
  const seeds = new Map(set.slots.flatMap(({ trials }) => trials.map(({ run_id: id, seed }) => [id, seed])));
  const folds = foldsOf(comparison, first ? [first] : [], seeds).filter(({ term }) => term !== "Sets");
  const repeated = set.slots.filter(({ trials }) => trials.length > 1).length;
  if (repeated) folds.push({ term: "Repeats", text: `${plural(repeated, "slot")} had more than one run`, details: [] });
  showFolds(byId("verdict-folds"), folds);
}

// The means of the best combinations over training time.
function showCurves(/** @type {Comparison} */ { results, groups }) {
  const metric = results.find(({ target, curve }) => target && curve)?.target.metric;
  const best = [...new Set([...bestFirst(groups, measureOf(groups)), ...groups])].slice(0, MAX_CURVES);
  const placeOf = (/** @type {number} */ id) => best.findIndex(({ run_ids: ids }) => ids.includes(id));
  const drawn = results.filter(({ target, curve, run_id: id }) => target?.metric === metric && curve && placeOf(id) >= 0);
  byId("curves").hidden = !drawn.length;
  if (!drawn.length) return;
  setText(byId("curves-title"), `${metricTitle(metric)} over training time`);
  byId("curves-title").title = metric;
  const means = groups.length > best.length ? `${best.length} fastest of ${groups.length} combinations` : "mean of each combination";
  setText(byId("curves-note"), `${means}, 95 % bands`);
  const data = { metric, axis: "training", results: drawn, columns: drawn.map((result) => ofResult(result, "training")) };
  drawCurves(curves, data, best.map((group) => ({ ...group, label: optionTitle(group.label) })), (id) => styleOf(placeOf(id)));
}

function showPlan(/** @type {RunSet} */ set) {
  const results = comparison?.results ?? [];
  const rows = rowsOf(set, results);
  fillTable(byId("plan"), columnsOf(rows, results), rows, ({ slot, trial }) => [slot.number, trial?.run_id, trial?.deleted]);
  byId("runs-link").href = urlOf(`/runs${query({ query: termsOf({ set: name }), order: "time_to_target" })}`);
}

const showProblem = problemWith(() => poller.now());
const poller = poll(refresh, showProblem);
for (const act of ["stop", "resume"]) byId(act).addEventListener("click", () => post(`${path}${act}/`).then(poller.now, showProblem));
