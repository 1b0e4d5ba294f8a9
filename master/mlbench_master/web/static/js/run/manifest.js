// The section "Manifest": the order, settings, machines and versions that a result depends on.

import { get } from "../api.js";
import { byId, h } from "../dom.js";
import { bytes, count, spans } from "../format.js";

const FEW_RANKS = 4;

export class Manifest {
  #shown = "";

  /** The commit of the run's code; empty if unknown. */
  commit = "";

  /**
   * @param {number} runId
   * @param {() => void} onCommit called when the commit is known
   */
  constructor(runId, onCommit) {
    this.path = `/api/runs/${runId}/manifest/`;
    this.onCommit = onCommit;
  }

  async refresh() {
    const manifest = await get(this.path);
    // Unless something changed, open details stay open.
    const text = JSON.stringify(manifest);
    if (text === this.#shown) return;
    this.#shown = text;
    byId("manifest-parts").replaceChildren(...parts(manifest));
    this.commit = manifest.machines.find((machine) => machine.git)?.git.commit ?? "";
    this.onCommit();
  }
}

function parts(/** @type {import("../records.js").Manifest} */ manifest) {
  return [
    part("Settings", rows(manifest.settings ?? {}), "No settings reported yet."),
    part("Request", rows(ordered(manifest))),
    ...manifest.machines.map((machine) => part(nameOf(machine), ofMachine(machine))),
    part("Ranks", ofRanks(manifest.ranks), "No rank has started yet.", "manifest-wide"),
  ];
}

function ordered(manifest) {
  const { benchmark, image, command, args, limits, seed, backend } = manifest;
  const what = benchmark
    ? { benchmark }
    : { image, command, folder: manifest.working_dir, all_nodes: manifest.run_all_nodes };
  return {
    ...what,
    division: manifest.division,
    ...Object.fromEntries(Object.entries(args).map(([name, value]) => [`--${name}`, value])),
    backend,
    seed,
    ...limits,
    attempts: manifest.attempts,
    not_recorded: manifest.not_recorded?.text,
    master: manifest.versions?.mlbench,
  };
}

function ofMachine(machine) {
  const { packages, git, ranks: _, hostname: __, gpus, processor, ...rest } = machine;
  const facts = {
    ...rest,
    memory_bytes: bytes(rest.memory_bytes),
    memory_limit_bytes: rest.memory_limit_bytes && bytes(rest.memory_limit_bytes),
    gpus: gpus?.length ? gpus.map(textOf).join("\n") : null,
    commit: git?.commit,
    code: git && (git.dirty ? "modified since that commit" : "unmodified"),
  };
  const names = Object.entries(packages ?? {}).sort(([a], [b]) => a.localeCompare(b, "en"));
  return rows(facts).concat(
    processor ? fold("processor", rows(processor)) : [],
    names.length ? fold("packages", rows(Object.fromEntries(names), String)) : [],
  );
}

function ofRanks(ranks) {
  const lines = ranks.map((rank) => {
    const { clock_offset_seconds: offset, clock_uncertainty_seconds: uncertainty } = rank;
    const difference = `clock offset ${milliseconds(offset)} ± ${milliseconds(uncertainty)}`;
    const clock = offset == null ? "clock offset unknown" : difference;
    return [
      `Rank ${rank.rank}`,
      [rank.pod, rank.hostname, rank.image, clock, rank.is_forked && "forked"].filter(Boolean).join(" · "),
    ];
  });
  const pairs = rows(Object.fromEntries(lines), String);
  return pairs.length > FEW_RANKS ? [fold("pods and clocks", pairs)] : pairs;
}

// A list that few readers need, folded and scrolling.
function fold(title, children) {
  const list = h("dl", { class: "pairs" }, ...children);
  const props = { class: "pairs-scroll", tabindex: "0", role: "group", "aria-label": title };
  const region = h("div", props, list);
  const details = h("details", {}, h("summary", {}, `Show ${count(children.length)}`), region);
  return h("div", {}, h("dt", {}, title), h("dd", {}, details));
}

function part(title, children, empty = "", kind = "") {
  const pairs = children.filter(Boolean);
  const list = h("dl", { class: "pairs" }, ...pairs);
  const body = pairs.length ? list : h("p", { class: "soft" }, empty);
  return h("div", { class: `manifest-part ${kind}` }, h("h3", {}, title), body);
}

function rows(values, write = humanise) {
  return Object.entries(values)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => h("div", {}, h("dt", {}, write(name)), h("dd", {}, textOf(value))));
}

function nameOf({ hostname, ranks }) {
  const who = ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${spans(ranks)}`;
  return `Machine ${hostname} (${who})`;
}

function humanise(name) {
  return name.startsWith("--") ? name : name.replaceAll("_", " ");
}

function textOf(value) {
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value !== "object") return String(value);
  return Object.values(value).filter((item) => item != null).join(", ");
}

function milliseconds(seconds) {
  return `${((seconds ?? 0) * 1000).toFixed(2)} ms`;
}
