// The fields of the dialog: which are shown, what they say, and what is wrong beside each.

import { byId, h, setText } from "../dom.js";
import * as format from "../format.js";
import { CUSTOM, LONGEST_NAME, NUMBERS } from "./order.js";

// Of a command of one's own: what the API takes of it.
const OWN = {
  takes_seed: true,
  takes_gpu: true,
  has_light_target: true,
  backends: ["gloo", "mpi", "nccl"],
};
const OWN_HINTS = {
  benchmark: "Any program: it records what it measures with mlbench.Tracker.",
  light_target: "The command is told --light.",
  gpu_enabled: "The command is told --gpu.",
  seed: "The command finds it as MLBENCH_SEED.",
};

/** @returns {string[]} what the fields are called in the API's order. */
export function names() {
  return allFields().map((box) => box.dataset.field);
}

/** @returns {any} the control of a field. */
export function control(/** @type {string} */ name) {
  return byId(`new-${name}`);
}

/** Offer the benchmarks, and one's own command. */
export function offerBenchmarks(/** @type {{ name: string }[]} */ benchmarks) {
  control("benchmark").replaceChildren(
    ...benchmarks.map(({ name }) => h("option", { value: name }, name)),
    h("option", { value: CUSTOM }, "Your own image and command"),
  );
}

/** Show what an installation allows. */
export function setLimits(/** @type {any} */ info) {
  const { limits, pool } = info;
  control("num_workers").max = limits.workers;
  control("num_workers").value = Math.min(2, limits.workers);
  hint("num_workers", `One rank each, at most ${limits.workers} here.`);
  control("num_cpus").max = limits.cpus;
  control("num_cpus").step = limits.whole_cpus ? "1" : "any";
  const whole = limits.whole_cpus ? ", whole ones" : "";
  hint("num_cpus", `At most ${format.number(limits.cpus)} here${whole}.`);
  const most = limits.bandwidth?.most;
  hint("max_bandwidth", `What each may send${most ? `, at most ${format.number(most)}` : ""}.`);
  if (pool !== "local") {
    hint("custom_image_name", "Where the command runs.");
    return;
  }
  control("custom_image_name").value = "local";
  hint("custom_image_name", "The command runs on this machine itself, which is called local.");
}

/** Show the fields that a benchmark has in an installation, and hide the others. */
export function adapt(/** @type {any} */ benchmark, /** @type {any} */ info) {
  const { limits } = info;
  const isCustom = benchmark === null;
  const takes = benchmark ?? OWN;
  const backends = takes.backends.filter((name) => name !== "nccl" || limits.gpus > 0);
  show("custom_image_name", isCustom);
  show("custom_image_command", isCustom);
  show("args", !isCustom);
  show("seed", takes.takes_seed);
  show("light_target", takes.has_light_target);
  show("backend", backends.length > 0);
  show("gpu_enabled", takes.takes_gpu && limits.gpus > 0);
  show("max_bandwidth", limits.bandwidth !== null);
  offerBackends(backends);
  const hints = isCustom ? OWN_HINTS : hintsOf(benchmark);
  for (const [name, text] of Object.entries(hints)) hint(name, text);
}

/** @returns {import("./order.js").Values} what the fields that are shown say. */
export function read() {
  /** @type {any} */
  const values = {};
  for (const box of allFields()) {
    const name = box.dataset.field;
    const input = control(name);
    if (input === null || box.hidden) continue;
    if (input.type === "checkbox") values[name] = input.checked;
    else if (name in NUMBERS) values[name] = readNumber(input);
    else values[name] = input.value.trim();
  }
  return values;
}

/** Show or hide a field. */
export function show(/** @type {string} */ name, /** @type {boolean} */ isShown) {
  fieldOf(name).hidden = !isShown;
}

/** @returns {boolean} whether there is such a field, and it is shown. */
export function isShown(/** @type {string} */ name) {
  return fieldOf(name)?.hidden === false;
}

/** Say beside a field what is wrong with it; empty if nothing is. */
export function showProblem(/** @type {string} */ name, /** @type {string} */ problem) {
  setText(byId(`problem-${name}`), problem);
  control(name)?.setAttribute("aria-invalid", String(problem !== ""));
}

/** Count the characters of the name. */
export function showLength(/** @type {string} */ name) {
  const rule = "Lowercase letters, digits and hyphens";
  hint("name", `${rule} · ${name.length} of ${LONGEST_NAME}`);
}

function hintsOf(benchmark) {
  const { description, goal, light_goal: lightGoal } = benchmark;
  return {
    benchmark: goal ? `${description} Goal: ${aim(goal)}.` : description,
    light_target: lightGoal ? `The easier goal: ${aim(lightGoal)}.` : "",
    gpu_enabled: "Trains on GPUs.",
    seed: "Of all that is random.",
  };
}

function aim({ metric, value, lower_is_better: isLowerBetter }) {
  return `${metric} ${isLowerBetter ? "≤" : "≥"} ${format.metric(metric, value)}`;
}

function offerBackends(backends) {
  const select = control("backend");
  const chosen = select.value;
  select.replaceChildren(
    h("option", { value: "" }, "gloo (default)"),
    ...backends.filter((name) => name !== "gloo").map((name) => h("option", { value: name }, name)),
  );
  if (backends.includes(chosen)) select.value = chosen;
}

function readNumber(input) {
  if (input.validity.badInput) return NaN;
  return input.value === "" ? null : Number(input.value);
}

function hint(name, text) {
  setText(byId(`hint-${name}`), text);
}

function fieldOf(name) {
  return allFields().find((box) => box.dataset.field === name);
}

/** @returns {HTMLElement[]} */
function allFields() {
  return [...byId("new-run").querySelectorAll("[data-field]")];
}
