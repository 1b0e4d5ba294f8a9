// The tab "Verdict": whether the runs can be compared, their results, and in what they differ.

import { showBars, showKey } from "../bars.js";
import { Chart } from "../chart.js";
import { groupColumns, namesOf, resultColumns, showCells } from "../compare/results.js";
import { foldsOf, showFolds, showHeadline } from "../compare/verdict.js";
import { byId, h, setNotice, setText } from "../dom.js";
import { addMenu, addTableMenu } from "../export.js";
import { duration } from "../format.js";
import { PHASES, colourOfPhase } from "../records.js";
import { sum } from "../series.js";
import { fillTable } from "../ui.js";

/**
 * @import { Bar } from "../bars.js"
 * @import { Found } from "../compare/loader.js"
 * @import { Line } from "../plot.js"
 * @import { ShownRun } from "./side.js"
 *
 * An attribute, with the value of each run.
 * @typedef {{ name: string, breaks: Comparison["differences"][number]["breaks"] | "swept", values: string[] }} Row
 */

// From this range of workers on, the axes are logarithmic.
const WIDE_RANGE = 8;
const SEED = "seed";
const NOT_STATED = "not reported";
// The effect of a difference on a comparison.
const EFFECTS = {
  ...{ yes: "Not comparable", unknown: "Unknown" },
  ...{ scaling: "Scaling not comparable", learning: "May affect training", no: "Does not affect training" },
  swept: "Swept, as planned",
};
const EFFECT = {
  title: "Meaning",
  cell: (/** @type {Row} */ { breaks }) => h("span", { class: "meaning", "data-breaks": breaks }, EFFECTS[breaks]),
};

/** @returns {Line[]} the speed-ups and the ideal; empty if nothing scales. */
export function toSpeedups(/** @type {Group[]} */ groups) {
  const workers = groups.map((group) => group.num_workers);
  if (groups.length < 2 || new Set(workers).size < groups.length) return [];
  const measured = [
    { name: "time to target", y: groups.map((group) => group.speedup), colour: "--series-0" },
    { name: "throughput", y: groups.map((group) => group.throughput_speedup), colour: "--series-1" },
    // A single speed-up, of the first group, is always 1.
  ].filter(({ y }) => y.filter((value) => value !== null).length > 1);
  if (!measured.length) return [];
  const dash = /** @type {const} */ ("dash");
  const ideal = { name: "ideal", x: workers, y: workers.map((count) => count / workers[0]), colour: "--soft", dash };
  return [ideal, ...measured.map((line) => ({ ...line, x: workers, points: true }))];
}

/** @returns {Bar[]} the seconds of each group in each phase. */
export function toPhases(/** @type {Group[]} */ groups) {
  const rest = new Set(groups.flatMap((group) => Object.keys(group.phases)));
  const names = [...PHASES.filter((name) => rest.delete(name)), ...[...rest].sort()];
  return groups.map(({ label, phases }) => ({
    name: label,
    text: duration(sum(Object.values(phases))),
    pieces: names.filter((name) => name in phases).map((name) => ({
      name,
      value: phases[name],
      colour: colourOfPhase(name),
      hint: `${name} ${duration(phases[name])}`,
    })),
  }));
}

export class Verdict {
  #chart = new Chart(byId("scaling"), "Speed-up of each group over its number of workers", { hasFiles: false });

  constructor() {
    addMenu(byId("scaling"), "Scaling", this.#chart.exports);
    addTableMenu(byId("results"), "Results");
    addTableMenu(byId("differences"), "Differences");
    addTableMenu(byId("group-figures"), "Groups");
  }

  show(/** @type {Found} */ { comparison, manifests }, /** @type {ShownRun[]} */ runs) {
    const { groups, results, sweep } = comparison;
    showHeadline(byId("verdict-headline"), comparison);
    showFolds(byId("verdict-folds"), foldsOf(comparison, manifests, new Map(manifests.map(({ run_id, seed }) => [run_id, seed]))));
    const columns = resultColumns(results, (id) => runs.find(({ run }) => run.id === id) ?? {});
    fillTable(byId("results"), columns, results, (result) => result.run_id);
    byId("sweep").hidden = !sweep;
    if (sweep) showCells(comparison, ({ run_ids: ids }) => `/compare?runs=${ids.join(",")}`);
    showDifferences(comparison, manifests);
    this.#showSpeedups(groups);
    fillTable(byId("group-figures"), groupColumns(groups), groups, (group) => group.label);
    const names = namesOf(groups, results);
    const bars = toPhases(groups).map((bar, i) => ({ ...bar, name: names[i] }));
    const pieces = bars.flatMap((bar) => bar.pieces);
    byId("phases-part").hidden = !pieces.length;
    if (!pieces.length) return;
    showKey(byId("phases-key"), [...new Map(pieces.map((piece) => [piece.name, piece])).values()]);
    showBars(byId("phases"), bars);
  }

  #showSpeedups(/** @type {Group[]} */ groups) {
    const lines = toSpeedups(groups);
    byId("scaling-part").hidden = !lines.length;
    if (!lines.length) return;
    setText(byId("scaling-note"), `Speed-up relative to ${groups[0].label}.`);
    const workers = groups.map((group) => group.num_workers);
    const type = workers.at(-1) > WIDE_RANGE * workers[0] ? "log" : "linear";
    this.#chart.draw(lines, { x: "workers", y: "speed-up", ySuffix: "×", xTicks: workers, fromZero: true, xType: type, yType: type });
  }
}

// Fill the part "Differences" of templates/_side.html.
function showDifferences(/** @type {Comparison} */ comparison, /** @type {Manifest[]} */ manifests) {
  const { results } = comparison;
  const rows = toRows(comparison, manifests);
  const name = { title: "Attribute", isHead: true, text: (/** @type {Row} */ row) => row.name };
  const runs = results.map(({ run_id, display_name: hint }, i) => {
    const kindOf = (/** @type {Row} */ { values }) => (values[i] === NOT_STATED ? "soft" : values[i] !== values[0] && "other");
    return { title: `Run ${run_id}`, hint, text: (row) => row.values[i], props: (row) => ({ class: kindOf(row) }) };
  });
  fillTable(byId("differences"), [name, EFFECT, ...runs], rows, (row) => `${row.name} ${row.breaks}`);
  byId("differences").parentElement.hidden = !rows.length;
  const none = results.length < 2 ? "Select a second run to see differences." : "No differences reported.";
  setNotice(byId("differences-note"), rows.length ? "" : none);
}

/**
 * @param {Pick<Comparison, "differences" | "results">} comparison
 * @param {Pick<Manifest, "limits" | "seed">[]} manifests
 * @returns {Row[]} the comparison's differences, then the swept options, limits and seeds that differ: the
 *   comparison leaves them out, because runs are meant to differ in them
 */
export function toRows({ differences, results }, manifests) {
  // The comparison has the seeds of groups, the manifests have the seeds of each run.
  const judged = differences.filter(({ name }) => name !== SEED).map(({ name, breaks, values }) => ({
    ...{ name, breaks },
    values: results.map(({ run_id: id }) => values.find(({ run_ids }) => run_ids.includes(id))?.value ?? NOT_STATED),
  }));
  const toFact = (/** @type {[string, string]} */ [key, value]) => [key.replaceAll("-", "_"), value];
  const swept = results.map((run) => Object.fromEntries(Object.entries(run.swept).map(toFact)));
  // A swept limit has another name among the limits.
  const limitsOf = (/** @type {Manifest["limits"]} */ limits) => (swept.some((run) => Object.keys(run).length) ? {} : limits);
  const facts = manifests.map(({ seed, limits }, i) => ({ ...limitsOf(limits), num_workers: results[i].num_workers, seed, ...swept[i] }));
  const names = [...new Set(facts.flatMap(Object.keys))].filter((name) => !judged.some((row) => row.name === name));
  const intended = names.map((name) => ({
    ...{ name, breaks: /** @type {Row["breaks"]} */ (swept.some((run) => name in run) ? "swept" : name === SEED ? "learning" : "no") },
    values: facts.map((run) => String(run[name] ?? "none")),
  }));
  return [...judged, ...intended.filter(({ values }) => new Set(values).size > 1)];
}
