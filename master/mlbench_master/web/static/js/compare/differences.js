// The section "Differences": the facts in which runs differ, in a table that can be filtered.

import { h, reconcile, setText } from "../dom.js";
import { makePart, makeTable, tableMenu } from "../side/tools.js";
import { fillTable } from "../ui.js";

/**
 * @import { Comparison, Manifest } from "../records.js"
 *
 * A fact, with the value of each run.
 * @typedef {{ key: string, group: string, name: string,
 *   breaks: "yes" | "unknown" | "scaling" | "learning" | "no", values: string[] }} Row
 */

const GROUPS = ["Settings", "Request", "Limits", "Machines", "Versions"];
const PACKAGES = "Packages";
const ORDERED = [
  ...["benchmark", "image", "command", "working_dir", "run_all_nodes"],
  ...["backend", "seed", "attempts"],
];
const NOT_STATED = "not reported";
const SEED = "seed";
// Label for the effect of a difference on a comparison.
const MARKS = {
  ...{ yes: "Not comparable", unknown: "Unknown" },
  ...{ scaling: "Scaling not comparable", learning: "May affect training", no: "Does not affect training" },
};

export class Differences {
  #filter = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter differences" }));
  #facts = makeTable("Differences between the runs");
  #packages = makeTable("Packages that differ between the runs");
  #packagesTitle = h("summary");
  #folded = h("details", { class: "side-packages" }, this.#packagesTitle, this.#packages.scroll);
  #noteText = h("p", { class: "soft", role: "status" });
  element = makePart("Differences", [this.#filter, tableMenu(this.#facts.table, "Differences")], this.#noteText, this.#facts.scroll, this.#folded);
  /** @type {Row[]} */
  #rows = [];
  /** @type {Comparison["results"]} */
  #results = [];

  constructor() {
    this.#filter.addEventListener("input", () => this.#fill());
  }

  show(/** @type {import("./loader.js").Found} */ { comparison, manifests }) {
    this.#rows = toRows(comparison, manifests);
    this.#results = comparison.results;
    this.#fill();
  }

  #fill() {
    const wanted = this.#rows.filter((row) => matches(row, this.#filter.value));
    const facts = wanted.filter((row) => row.group !== PACKAGES);
    const packages = wanted.filter((row) => row.group === PACKAGES);
    this.#fillTable(this.#facts.table, facts, [MEANING, PART]);
    this.#fillTable(this.#packages.table, packages, []);
    this.#facts.scroll.hidden = facts.length === 0;
    this.#folded.hidden = packages.length === 0;
    setText(this.#packagesTitle, `Packages (${packages.length})`);
    setText(this.#noteText, this.#note(wanted));
  }

  #fillTable(table, rows, extra) {
    const runs = this.#results.map((result, i) => ({
      title: `Run ${result.run_id}`,
      hint: result.display_name,
      fill: (cell, row) => fillValue(cell, row, i),
    }));
    const name = { title: "Attribute", isHead: true, text: (row) => row.name };
    fillTable(table, [name, ...extra, ...runs], rows, (row) => row.key);
  }

  #note(wanted) {
    if (this.#results.length < 2) return "Select a second run to see differences.";
    if (!this.#rows.length) return "No differences reported.";
    return wanted.length ? "" : "No matching attributes.";
  }
}

const PART = { title: "Part", text: (row) => row.group };
const MEANING = {
  title: "Meaning",
  fill: (cell, row) =>
    reconcile(cell, [row.breaks], String, (breaks) =>
      h("span", { class: "meaning", "data-breaks": breaks }, MARKS[breaks]),
    ),
};

function fillValue(cell, row, i) {
  setText(cell, row.values[i]);
  const isStated = row.values[i] !== NOT_STATED;
  cell.classList.toggle("soft", !isStated);
  cell.classList.toggle("other", isStated && row.values[i] !== row.values[0]);
}

/**
 * @param {Pick<Comparison, "differences" | "results">} comparison
 * @param {Manifest[]} manifests
 * @returns {Row[]} the comparison's differences, then those that only the manifests state; they have
 *   no part in learning but for the seed, as the comparison names all others
 */
export function toRows(comparison, manifests) {
  const facts = manifests.map(toFacts);
  const rows = judged(comparison, facts);
  for (const row of stated(facts)) {
    if (!rows.some((other) => isSame(other, row))) rows.push(row);
  }
  return rows;
}

function judged({ differences, results }, facts) {
  // The comparison has the seeds of groups; the manifests, those of each run.
  const others = differences.filter(({ name }) => name !== SEED);
  return others.map(({ name, breaks, values }) => ({
    key: `judged ${name}`,
    group: GROUPS.find((group) => facts.some((run) => name in run[group])) ?? "Run",
    name,
    breaks,
    values: results.map(
      ({ run_id }) => values.find((entry) => entry.run_ids.includes(run_id))?.value ?? NOT_STATED,
    ),
  }));
}

// An attribute may occur twice: as requested, and as reported by the run.
function isSame(other, row) {
  const leaf = (name) => name.split(".").at(-1);
  const isOrdered = row.group === "Request" || String(row.values) === String(other.values);
  return isOrdered && leaf(row.name) === leaf(other.name);
}

function stated(facts) {
  return [...GROUPS, PACKAGES].flatMap((group) => {
    const names = new Set(facts.flatMap((run) => Object.keys(run[group])));
    return [...names]
      .sort()
      .map((name) => ({
        key: `${group} ${name}`,
        group,
        name,
        breaks: name.split(".").at(-1) === SEED ? "learning" : "no",
        values: facts.map((run) => run[group][name] ?? NOT_STATED),
      }))
      .filter(({ values }) => new Set(values).size > 1);
  });
}

/** @returns {boolean} whether a row contains a text in any case. */
export function matches(/** @type {Row} */ row, /** @type {string} */ text) {
  const wanted = text.trim().toLowerCase();
  return [row.group, row.name, ...row.values].some((cell) => cell.toLowerCase().includes(wanted));
}

// A manifest as flat facts, by group.
function toFacts(/** @type {Manifest} */ manifest) {
  const ordered = Object.fromEntries(ORDERED.map((name) => [name, manifest[name]]));
  const machines = manifest.machines.map(({ packages, ranks, ...machine }) => machine);
  return {
    Settings: flatten(manifest.settings ?? {}),
    Request: flatten({ ...ordered, args: manifest.args }),
    Limits: flatten(manifest.limits),
    Machines: joined(machines),
    Versions: flatten(manifest.versions),
    Packages: joined(manifest.machines.map((machine) => machine.packages ?? {})),
  };
}

// The distinct values of several machines.
function joined(machines) {
  const facts = machines.map((machine) => flatten(machine));
  const names = [...new Set(facts.flatMap((machine) => Object.keys(machine)))];
  const valuesOf = (name) => [...new Set(facts.map((machine) => machine[name] ?? NOT_STATED))];
  return Object.fromEntries(names.map((name) => [name, valuesOf(name).sort().join("; ")]));
}

function flatten(value, path = "") {
  if (value === null || typeof value !== "object") return { [path]: textOf(value) };
  if (Array.isArray(value)) return { [path]: value.map(textOf).join(", ") || "none" };
  const parts = Object.entries(value).map(([name, part]) =>
    flatten(part, path ? `${path}.${name}` : name),
  );
  return Object.assign({}, ...parts);
}

function textOf(value) {
  if (value === null || value === "") return "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
