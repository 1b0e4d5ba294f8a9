// What the run's result depends on: what was ordered, the machines, settings, versions, code.

import { get } from "../api.js";
import { h } from "../dom.js";
import { bytes, count } from "../format.js";

const FEW_RANKS = 4;

/** The section "Manifest". */
export class Manifest {
  /** @param {HTMLElement} place @param {number} runId */
  constructor(place, runId) {
    this.place = place;
    this.path = `/api/runs/${runId}/manifest/`;
    this.shown = "";
  }

  /** Fetch the manifest, and show it. */
  async refresh() {
    const manifest = await get(this.path);
    // What is open stays open, as long as nothing has changed.
    const text = JSON.stringify(manifest);
    if (text === this.shown) return;
    this.shown = text;
    this.place.replaceChildren(...parts(manifest));
  }
}

function parts(manifest) {
  return [
    part("Ordered", rows(ordered(manifest))),
    part("Settings", rows(manifest.settings ?? {}), "The task has stated none so far."),
    ...manifest.machines.map((machine) => part(nameOf(machine), ofMachine(machine))),
    part("Ranks", ofRanks(manifest.ranks), "No rank has begun so far.", "manifest-wide"),
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
    master: manifest.versions?.mlbench,
  };
}

function ofMachine(machine) {
  const { packages, git, ranks: _, hostname: __, gpus, ...rest } = machine;
  const known = {
    ...rest,
    memory_bytes: bytes(rest.memory_bytes),
    memory_limit_bytes: rest.memory_limit_bytes && bytes(rest.memory_limit_bytes),
    gpus: gpus?.length ? gpus.map(textOf).join("\n") : null,
    commit: git?.commit,
    code: git && (git.dirty ? "changed since that commit" : "as committed"),
  };
  const names = Object.entries(packages ?? {}).sort(([a], [b]) => a.localeCompare(b, "en"));
  return rows(known).concat(
    names.length ? fold("packages", names.length, rows(Object.fromEntries(names), verbatim)) : [],
  );
}

function ofRanks(ranks) {
  const lines = ranks.map((rank) => {
    const { clock_offset_seconds: offset, clock_uncertainty_seconds: uncertainty } = rank;
    const known = `clock ${milliseconds(offset)} off, known to ±${milliseconds(uncertainty)}`;
    const clock = offset == null ? "clock not compared" : known;
    return [
      `Rank ${rank.rank}`,
      [rank.pod, rank.hostname, rank.image, clock].filter(Boolean).join(" · "),
    ];
  });
  const found = rows(Object.fromEntries(lines), verbatim);
  return found.length > FEW_RANKS ? [fold("pods and clocks", found.length, found)] : found;
}

// What is long is folded, and scrolls.
function fold(title, length, children) {
  const list = h("dl", { class: "pairs" }, ...children);
  const region = h(
    "div",
    { class: "pairs-scroll", tabindex: "0", role: "group", "aria-label": title },
    list,
  );
  const details = h("details", {}, h("summary", {}, `Show ${count(length)}`), region);
  return h("div", {}, h("dt", {}, title), h("dd", {}, details));
}

function part(title, children, empty = "", kind = "") {
  const found = children.filter(Boolean);
  return h(
    "div",
    { class: `manifest-part ${kind}` },
    h("h3", {}, title),
    found.length ? h("dl", { class: "pairs" }, ...found) : h("p", { class: "soft" }, empty),
  );
}

// What is not said, or not limited, is left out.
function rows(values, write = humanise) {
  return Object.entries(values)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => h("div", {}, h("dt", {}, write(name)), h("dd", {}, textOf(value))));
}

function nameOf({ hostname, ranks }) {
  const who = ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${spans(ranks)}`;
  return `Machine ${hostname} (${who})`;
}

/** @returns {string} whole numbers in order, such as `0–3, 7`. */
export function spans(/** @type {number[]} */ numbers) {
  const found = [];
  for (const number of numbers) {
    const last = found.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([from, to]) => (from === to ? from : `${from}–${to}`)).join(", ");
}

function verbatim(name) {
  return name;
}

function humanise(name) {
  return name.startsWith("--") ? name : name.replaceAll("_", " ");
}

function textOf(value) {
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value === "object")
    return Object.values(value)
      .filter((one) => one != null)
      .join(", ");
  return String(value);
}

function milliseconds(seconds) {
  return `${((seconds ?? 0) * 1000).toFixed(2)} ms`;
}
