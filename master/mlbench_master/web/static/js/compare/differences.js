// The attributes in which runs differ, in a table that can be filtered.

import { byId, h, reconcile, setText } from "../dom.js";
import { fillTable } from "../ui.js";

/**
 * @import { Comparison, Manifest } from "../records.js"
 * @import { Found } from "./loader.js"
 *
 * An attribute, with the value of each run.
 * @typedef {{ name: string, breaks: Comparison["differences"][number]["breaks"] | "swept", values: string[] }} Row
 */

const NOT_STATED = "not reported";
const SEED = "seed";
// The effect of a difference on a comparison.
const EFFECTS = {
  ...{ yes: "Not comparable", unknown: "Unknown" },
  ...{ scaling: "Scaling not comparable", learning: "May affect training", no: "Does not affect training" },
  swept: "Swept, as planned",
};
const EFFECT = {
  title: "Meaning",
  fill: (cell, /** @type {Row} */ { breaks }) => reconcile(cell, [breaks], String, () => h("span", { class: "meaning", "data-breaks": breaks }, EFFECTS[breaks])),
};

/** The part "Differences" of templates/_side.html. */
export class Differences {
  #filter = byId("differences-filter");
  /** @type {Row[]} */
  #rows = [];
  /** @type {Comparison["results"]} */
  #results = [];

  constructor() {
    this.#filter.addEventListener("input", () => this.#fill());
  }

  show(/** @type {Found} */ { comparison, manifests }) {
    this.#rows = toRows(comparison, manifests);
    this.#results = comparison.results;
    this.#fill();
  }

  #fill() {
    const matching = this.#rows.filter((row) => matches(row, this.#filter.value));
    const runs = this.#results.map(({ run_id, display_name: hint }, i) => ({ title: `Run ${run_id}`, hint, fill: (cell, row) => fillValue(cell, row, i) }));
    const name = { title: "Attribute", isHead: true, text: (/** @type {Row} */ row) => row.name };
    fillTable(byId("differences"), [name, EFFECT, ...runs], matching, (row) => row.name);
    byId("differences").parentElement.hidden = !matching.length;
    const none = this.#rows.length ? "No matching attributes." : "No differences reported.";
    setText(byId("differences-note"), this.#results.length < 2 ? "Select a second run to see differences." : matching.length ? "" : none);
  }
}

function fillValue(cell, /** @type {Row} */ { values }, /** @type {number} */ i) {
  setText(cell, values[i]);
  cell.classList.toggle("soft", values[i] === NOT_STATED);
  cell.classList.toggle("other", values[i] !== NOT_STATED && values[i] !== values[0]);
}

/**
 * @param {Pick<Comparison, "differences" | "results" | "groups">} comparison
 * @param {Manifest[]} manifests
 * @returns {Row[]} the comparison's differences, then settings, limits and packages in which only the
 *   manifests differ: the comparison names all others that affect training
 */
export function toRows({ differences, results, groups }, manifests) {
  const swept = new Set(groups.flatMap((group) => Object.keys(group.swept)).map((key) => key.replaceAll("-", "_")));
  // The comparison has the seeds of groups; the manifests, those of each run.
  const judged = differences.filter(({ name }) => name !== SEED).map(({ name, breaks, values }) => ({
    ...{ name, breaks },
    values: results.map(({ run_id: id }) => values.find(({ run_ids }) => run_ids.includes(id))?.value ?? NOT_STATED),
  }));
  const facts = manifests.map(({ seed, settings, limits, machines }) => {
    const packages = Object.assign({}, ...machines.map((machine) => machine.packages));
    return { ...flatten({ ...settings, ...limits, seed }), ...flatten(packages, "package") };
  });
  const names = [...new Set(facts.flatMap(Object.keys))].filter((name) => !judged.some((row) => row.name === name));
  const stated = names.map((name) => ({
    ...{ name, breaks: /** @type {Row["breaks"]} */ (swept.has(name) ? "swept" : name === SEED ? "learning" : "no") },
    values: facts.map((run) => run[name] ?? NOT_STATED),
  }));
  return [...judged, ...stated.filter(({ values }) => new Set(values).size > 1)];
}

/** @returns {boolean} whether a row contains a text in any case. */
export function matches(/** @type {Pick<Row, "name" | "values">} */ { name, values }, /** @type {string} */ text) {
  const part = text.trim().toLowerCase();
  return [name, ...values].some((cell) => cell.toLowerCase().includes(part));
}

/** @returns {Record<string, string>} */
function flatten(value, path = "") {
  if (value === null || typeof value !== "object") return { [path]: textOf(value) };
  if (Array.isArray(value)) return { [path]: value.map(textOf).join(", ") || "none" };
  return Object.assign({}, ...Object.entries(value).map(([name, part]) => flatten(part, path ? `${path}.${name}` : name)));
}

function textOf(value) {
  if (value === null || value === "") return "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
