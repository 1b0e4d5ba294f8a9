// In what runs differ: what the master found, and all that their manifests state. Pure.

const GROUPS = ["Settings", "Order", "Limits", "Machines", "Versions"];
const PACKAGES = "Packages";
const ORDERED = [
  "benchmark",
  "image",
  "command",
  "working_dir",
  "run_all_nodes",
  "backend",
  "seed",
  "attempts",
];
export const NOT_STATED = "not stated";
export const MARKS = { yes: "Breaks the comparison", unknown: "Unknown", no: "Harmless" };

/**
 * A row: a fact with the value of each run, in the order of the runs.
 * @typedef {{ key: string, group: string, name: string, breaks: "yes" | "unknown" | "no",
 *   values: string[] }} Row
 */

/**
 * @returns {Row[]} in what runs differ: first what the comparison names, then what else manifests
 * state; that is harmless, as the comparison names all that is not
 */
export function toRows(/** @type {object} */ comparison, /** @type {object[]} */ manifests) {
  const facts = manifests.map(toFacts);
  const named = judged(comparison, facts);
  const rows = [...named];
  for (const row of stated(facts)) {
    // The same is often stated twice: what was ordered, and what was run with.
    if (!rows.some((one) => isSame(one, row))) rows.push(row);
  }
  return rows;
}

function judged(comparison, facts) {
  return comparison.differences.map((difference) => ({
    key: `judged ${difference.name}`,
    group: groupOf(difference.name, facts),
    name: difference.name,
    breaks: difference.breaks,
    values: comparison.results.map(({ run_id }) => {
      const found = difference.values.find((one) => one.run_ids.includes(run_id));
      return found?.value ?? NOT_STATED;
    }),
  }));
}

function groupOf(name, facts) {
  return GROUPS.find((group) => facts.some((one) => name in one[group])) ?? "Run";
}

function isSame(one, other) {
  const leaf = (name) => name.split(".").at(-1);
  return leaf(one.name) === leaf(other.name) && String(one.values) === String(other.values);
}

function stated(facts) {
  return [...GROUPS, PACKAGES].flatMap((group) => {
    const names = new Set(facts.flatMap((one) => Object.keys(one[group])));
    return [...names]
      .sort()
      .map((name) => ({
        key: `${group} ${name}`,
        group,
        name,
        breaks: "no",
        values: facts.map((one) => one[group][name] ?? NOT_STATED),
      }))
      .filter(({ values }) => new Set(values).size > 1);
  });
}

/** @returns {boolean} whether a row is one of the installed packages, of which there are many. */
export function isPackage(/** @type {Row} */ row) {
  return row.group === PACKAGES;
}

/** @returns {boolean} whether a text, in any case, is in a row. */
export function matches(/** @type {Row} */ row, /** @type {string} */ text) {
  const wanted = text.trim().toLowerCase();
  return [row.group, row.name, ...row.values].some((one) => one.toLowerCase().includes(wanted));
}

/** @returns {Record<string, Record<string, string>>} a manifest as flat facts, by group. */
export function toFacts(/** @type {object} */ manifest) {
  const ordered = Object.fromEntries(ORDERED.map((name) => [name, manifest[name]]));
  const machines = manifest.machines.map(({ packages, ranks, ...machine }) => machine);
  return {
    Settings: flatten(manifest.settings ?? {}),
    Order: flatten({ ...ordered, args: manifest.args }),
    Limits: flatten(manifest.limits),
    Machines: joined(machines),
    Versions: flatten(manifest.versions),
    Packages: joined(manifest.machines.map((machine) => machine.packages ?? {})),
  };
}

// Of several machines each value once, as a run of several kinds of machines has several.
function joined(machines) {
  const facts = machines.map((machine) => flatten(machine));
  const names = [...new Set(facts.flatMap((one) => Object.keys(one)))];
  return Object.fromEntries(
    names.map((name) => [
      name,
      [...new Set(facts.map((one) => one[name] ?? NOT_STATED))].sort().join("; "),
    ]),
  );
}

function flatten(value, path = "") {
  if (value === null || typeof value !== "object") return { [path]: spelled(value) };
  if (Array.isArray(value)) return { [path]: value.map(spelled).join(", ") || "none" };
  const parts = Object.entries(value).map(([name, one]) =>
    flatten(one, path ? `${path}.${name}` : name),
  );
  return Object.assign({}, ...parts);
}

function spelled(value) {
  if (value === null || value === "") return "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
