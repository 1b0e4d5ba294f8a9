// The section "Settings and machines": the order, settings, machines and versions that a result depends on.

import { byId, h } from "../dom.js";
import { bytes, count } from "../format.js";
import { namesOf } from "./ranks.js";

/** Show the manifest of a run. */
export function showManifest(/** @type {Manifest} */ manifest) {
  byId("manifest-parts").replaceChildren(
    part("Settings", manifest.settings ?? {}),
    part("Request", requestOf(manifest)),
    ...manifest.machines.map((machine) => part(`Machine ${machine.hostname} (${namesOf(machine.ranks)})`, factsOf(machine))),
  );
}

function requestOf(/** @type {Manifest} */ { benchmark, image, command, args, limits, seed, backend, division, attempts, ...manifest }) {
  return {
    ...(benchmark ? { benchmark } : { image, command, folder: manifest.working_dir, all_nodes: manifest.run_all_nodes }),
    division,
    ...args,
    backend,
    seed,
    ...limits,
    attempts,
    not_recorded: manifest.not_recorded?.text,
    master: manifest.versions?.mlbench,
  };
}

function factsOf(machine) {
  const { packages, git, ranks: _, hostname: __, gpus, processor, memory_bytes, memory_limit_bytes, ...facts } = machine;
  const names = Object.entries(packages ?? {}).sort(([a], [b]) => a.localeCompare(b, "en"));
  return {
    ...facts,
    memory: bytes(memory_bytes),
    memory_limit: memory_limit_bytes && bytes(memory_limit_bytes),
    gpus: gpus?.map(textOf).join("\n"),
    commit: git?.commit,
    changes: git && (git.dirty ? "not committed" : "none"),
    processor: fold("processor", pairsOf(processor ?? {})),
    packages: fold("packages", pairsOf(Object.fromEntries(names), String)),
  };
}

// A list that few readers need, folded and scrolling.
function fold(/** @type {string} */ title, /** @type {HTMLElement[]} */ pairs) {
  const region = { class: "pairs-scroll", tabindex: "0", role: "group", "aria-label": title };
  const list = h("div", region, h("dl", { class: "pairs" }, pairs));
  return pairs.length ? h("details", {}, h("summary", {}, `Show ${count(pairs.length)}`), list) : null;
}

function part(/** @type {string} */ title, /** @type {object} */ values) {
  const pairs = pairsOf(values);
  const body = pairs.length ? h("dl", { class: "pairs" }, pairs) : h("p", { class: "soft" }, "None reported yet.");
  return h("div", {}, h("h3", {}, title), body);
}

function pairsOf(/** @type {object} */ values, write = (/** @type {string} */ name) => name.replaceAll("_", " ")) {
  return Object.entries(values)
    .filter(([, value]) => value != null && value !== "")
    .map(([name, value]) => h("div", {}, h("dt", {}, write(name)), h("dd", {}, value instanceof Node ? value : textOf(value))));
}

function textOf(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "object" ? Object.values(value).filter((item) => item != null).join(", ") : String(value);
}
