// The fields of the dialog for a new run, and the rows of a benchmark's options.

import { byId, h, setOptions, setText } from "../dom.js";
import * as format from "../format.js";
import { CUSTOM, MAX_NAME_LENGTH } from "./order.js";

/** @import { Benchmark, Info } from "../records.js" */

// Options of the user's own command.
const OWN = {
  takes_seed: true,
  takes_gpu: true,
  has_light_target: true,
  backends: ["gloo", "nccl"],
};
const OWN_HINTS = {
  benchmark: "Any program that records its metrics with mlbench.Tracker.",
  light_target: "Adds --light to the command.",
  gpu_enabled: "Adds --gpu to the command.",
  seed: "Passed to the command as MLBENCH_SEED.",
};

/** @returns {string[]} the names of the fields, as in the API's order. */
export function names() {
  return boxes().map((box) => box.dataset.field);
}

/** @returns {any} the control of a field. */
export function control(/** @type {string} */ name) {
  return byId(`new-${name}`);
}

export function offerBenchmarks(/** @type {Benchmark[]} */ benchmarks) {
  const values = [...benchmarks.map(({ name }) => name), CUSTOM];
  setOptions(control("benchmark"), values, (value) =>
    value === CUSTOM ? "Your own image and command" : value,
  );
}

/** Show the limits of the installation. */
export function setLimits(/** @type {Info} */ { limits, pool }) {
  control("num_workers").value = Math.min(2, limits.workers);
  control("num_cpus").step = limits.whole_cpus ? "1" : "any";
  limit("num_workers", limits.workers);
  limit("num_cpus", limits.cpus, limits.whole_cpus ? ", whole cores only" : "");
  limit("max_bandwidth", limits.bandwidth?.most);
  if (pool === "local") control("custom_image_name").value = "local";
  hint(
    "custom_image_name",
    pool === "local"
      ? "“local”: the command runs on this machine."
      : "Container image of the command.",
  );
}

/** Show the fields that a benchmark (null: the user's own command) has, and hide the others. */
export function adapt(/** @type {Benchmark | null} */ benchmark, /** @type {Info} */ { limits }) {
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
  for (const box of boxes()) if ("impairment" in box.dataset) box.hidden = !limits.latency;
  const others = backends.filter((name) => name !== "gloo");
  setOptions(control("backend"), ["", ...others], (name) => name || "gloo (default)");
  const hints = isCustom ? OWN_HINTS : hintsOf(benchmark);
  for (const [name, text] of Object.entries(hints)) hint(name, text);
}

/** @returns {import("./order.js").Values} the values of the fields that are shown. */
export function read() {
  /** @type {any} */
  const values = {};
  for (const box of boxes()) {
    const name = box.dataset.field;
    const input = control(name);
    if (input === null || box.hidden) continue;
    if (input.type === "checkbox") values[name] = input.checked;
    else if (input.type === "number") values[name] = readNumber(input);
    else values[name] = input.value.trim();
  }
  return values;
}

/** @returns {Record<string, import("./order.js").Bounds>} the bounds of the numbers, by field. */
export function bounds() {
  /** @type {[string, HTMLInputElement][]} */
  const inputs = names().map((name) => [name, control(name)]);
  const numbers = inputs.filter(([, input]) => input?.type === "number");
  return Object.fromEntries(
    numbers.map(([name, { dataset, max, step, required }]) => [
      name,
      {
        ...JSON.parse(dataset.bounds),
        ...(max && { most: Number(max) }),
        whole: step === "1",
        needed: required,
      },
    ]),
  );
}

/** @returns {Record<string, string>} the options of the command line, by field. */
export function flags() {
  const given = boxes().filter(({ dataset }) => dataset.flag);
  return Object.fromEntries(given.map(({ dataset }) => [dataset.field, dataset.flag]));
}

export function show(/** @type {string} */ name, /** @type {boolean} */ isShown) {
  boxOf(name).hidden = !isShown;
}

/** @returns {boolean} whether there is such a field and it is shown. */
export function isShown(/** @type {string} */ name) {
  return boxOf(name)?.hidden === false;
}

/** Show the problem of a field beside it, or none if it is empty. */
export function showProblem(/** @type {string} */ name, /** @type {string} */ problem) {
  setText(byId(`problem-${name}`), problem);
  control(name)?.setAttribute("aria-invalid", String(problem !== ""));
}

/** Show how many characters the name has. */
export function showLength(/** @type {string} */ name) {
  hint("name", `Any text · ${name.length} of ${MAX_NAME_LENGTH}`);
}

function hintsOf(/** @type {Benchmark} */ { description, target, light_target: lightTarget }) {
  return {
    benchmark: target ? `${description} Target: ${format.targetText(target)}.` : description,
    light_target: lightTarget ? `Light target: ${format.targetText(lightTarget)}.` : "",
    gpu_enabled: "Trains on GPUs.",
    seed: "Seed of all random numbers.",
  };
}

function readNumber(input) {
  if (input.validity.badInput) return NaN;
  return input.value === "" ? null : Number(input.value);
}

function limit(name, most, addition = "") {
  if (most == null) return;
  control(name).max = most;
  const { textContent: help } = byId(`hint-${name}`);
  hint(name, `${help} Maximum here: ${format.number(most)}${addition}.`);
}

function hint(name, text) {
  setText(byId(`hint-${name}`), text);
}

function boxOf(name) {
  return boxes().find((box) => box.dataset.field === name);
}

/** @returns {HTMLElement[]} */
function boxes() {
  return [...byId("new-run").querySelectorAll("[data-field]")];
}

/** The rows of options; `onChange` is called when one is added or removed. */
export class Options {
  #rows = byId("options-rows");
  #known = {};
  #count = 0;

  constructor(/** @type {() => void} */ onChange) {
    this.onChange = onChange;
    byId("add-option").addEventListener("click", () => {
      this.#add().querySelector("input").focus();
      onChange();
    });
  }

  /** Suggest a benchmark's options, and values: all choices, or the values that its rules permit. */
  suggest(/** @type {Pick<Benchmark, "options" | "rules">} */ { options, rules }) {
    this.#known = Object.fromEntries(
      options.map(({ name, choices, default: usual }) =>
        [name, choices.length ? choices : (rules[name] ?? [usual])],
      ),
    );
    setOptions(byId("option-keys"), Object.keys(this.#known));
    for (const row of this.#rows.children) this.#suggestValues(row);
  }

  /** @returns {{ key: string, value: string }[]} */
  read() {
    return [...this.#rows.children].map((row) => {
      const [key, value] = row.querySelectorAll("input");
      return { key: key.value.trim(), value: value.value };
    });
  }

  /** Show the problems under `args.KEY` beside their rows. */
  showProblems(/** @type {Record<string, string>} */ problems) {
    for (const row of this.#rows.children) {
      const inputs = row.querySelectorAll("input");
      const [key, value] = [...inputs].map((input) => input.value.trim());
      const problem = key || value ? (problems[`args.${key}`] ?? "") : "";
      setText(row.querySelector(".problem"), problem);
      for (const input of inputs) input.setAttribute("aria-invalid", String(problem !== ""));
    }
  }

  #add() {
    const id = `option-problem-${++this.#count}`;
    const described = { "aria-describedby": id, autocomplete: "off", spellcheck: "false" };
    const key = h("input", { ...described, "aria-label": "Option", list: "option-keys" });
    const values = h("datalist", { id: `option-values-${this.#count}` });
    const value = h("input", { ...described, "aria-label": "Value", list: values.id });
    const button = { type: "button", class: "quiet", "aria-label": "Remove option" };
    const remove = h("button", button, "Remove");
    const sign = h("span", { "aria-hidden": "true" }, "=");
    const row = h(
      "div",
      { class: "option" },
      h("div", { class: "option-inputs" }, key, sign, value, remove, values),
      h("p", { class: "problem", id }),
    );
    remove.addEventListener("click", () => {
      row.remove();
      byId("add-option").focus();
      this.onChange();
    });
    key.addEventListener("input", () => this.#suggestValues(row));
    this.#rows.append(row);
    return row;
  }

  #suggestValues(row) {
    const key = row.querySelector("input").value.trim();
    const values = Object.hasOwn(this.#known, key) ? this.#known[key] : [];
    setOptions(row.querySelector("datalist"), values.filter((value) => value !== null).map(String));
  }
}
