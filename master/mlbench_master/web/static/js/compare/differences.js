// The attributes in which runs differ, in a table.

import { byId, h, setNotice, setText } from "../dom.js";
import { fillTable } from "../ui.js";

/**
 * An attribute, with the value of each run.
 * @typedef {{ name: string, breaks: Comparison["differences"][number]["breaks"] | "swept", values: string[] }} Row
 */

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
  make: (/** @type {Row} */ { breaks }) => h("span", { class: "meaning", "data-breaks": breaks }, EFFECTS[breaks]),
};

/** Fill the part "Differences" of templates/_side.html. */
export function showDifferences(/** @type {Comparison} */ comparison, /** @type {Manifest[]} */ manifests) {
  const { results } = comparison;
  const rows = toRows(comparison, manifests);
  const name = { title: "Attribute", isHead: true, text: (/** @type {Row} */ row) => row.name };
  const runs = results.map(({ run_id, display_name: hint }, i) => {
    return { title: `Run ${run_id}`, hint, fill: (cell, row) => fillValue(cell, row, i) };
  });
  fillTable(byId("differences"), [name, EFFECT, ...runs], rows, (row) => `${row.name} ${row.breaks}`);
  byId("differences").parentElement.hidden = !rows.length;
  const none = results.length < 2 ? "Select a second run to see differences." : "No differences reported.";
  setNotice(byId("differences-note"), rows.length ? "" : none);
}

function fillValue(cell, /** @type {Row} */ { values }, /** @type {number} */ i) {
  setText(cell, values[i]);
  cell.classList.toggle("soft", values[i] === NOT_STATED);
  cell.classList.toggle("other", values[i] !== NOT_STATED && values[i] !== values[0]);
}

/**
 * @param {Pick<Comparison, "differences" | "results">} comparison
 * @param {Pick<Manifest, "limits" | "seed">[]} manifests
 * @returns {Row[]} the comparison's differences, then the swept options, limits and seeds that differ: the
 *   comparison leaves them out, because runs are meant to differ in them
 */
export function toRows({ differences, results }, manifests) {
  // The comparison has the seeds of groups; the manifests, those of each run.
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
