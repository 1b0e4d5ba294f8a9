// The dialog for a new run: it checks the form while you type.

import { ApiError, get, post } from "../api.js";
import { byId, onSubmit, setNotice, setOptions, setText } from "../dom.js";
import * as format from "../format.js";
import { ACTIVE_STATES } from "../records.js";
import { urlOf } from "../root.js";

/**
 * The form without hidden fields; `args` has a line `KEY = VALUE` for each option.
 * @typedef {{ name: string, benchmark: string, custom_image_command?: string, args?: string } & Record<string, any>} Values
 */

const MAX_DEFAULT_LENGTH = 40;
/** The choice, among the benchmarks, of the user's own code. */
export const CUSTOM = "custom_image";
const LOST = "The master does not respond, but may have received the request: check the list of runs before you start the run again.";
/** The choice of the user's own command, described like a benchmark. */
const OWN = /** @type {any} */ ({
  ...{ name: CUSTOM, description: "Any program that records its metrics with mlbench.Tracker." },
  ...{ takes_seed: true, takes_gpu: true, has_light_target: true, backends: ["gloo", "nccl"], options: [] },
});
/** Error messages for the value of a field, by the names of ValidityState. */
const PROBLEMS = /** @type {Record<string, (input: any) => string>} */ ({
  badInput: () => "must be a number",
  valueMissing: ({ labels }) => `${labels[0].textContent.toLowerCase()} is required`,
  patternMismatch: () => "must not be a number, because numbers are run ids",
  stepMismatch: ({ value }) => `must be a whole number (got ${value})`,
  rangeUnderflow: ({ min, value }) => `must be at least ${min} (got ${value})`,
  rangeOverflow: ({ max, value }) => `must be at most ${max} here (got ${value})`,
});

export class NewRun {
  /** @type {Info | null} */
  #info = null;
  /** @type {Benchmark[]} */
  #benchmarks = [];
  // The API's problems by field, until the field changes.
  #refused = {};
  // The fields in which the user has typed; problems of the others are shown on sending.
  #touched = new Set();

  constructor(/** @type {HTMLDialogElement} */ dialog) {
    this.dialog = dialog;
    this.form = dialog.querySelector("form");
    this.inputs = /** @type {any[]} */ ([...this.form.elements]).filter(({ name }) => name);
    this.form.addEventListener("input", (/** @type {any} */ { target: { name } }) => {
      this.#touched.add(name);
      delete this.#refused[name];
      if (name === "benchmark") this.#adapt();
      this.#refresh();
    });
    onSubmit(this.form, () => this.#send());
    byId("cancel-run").addEventListener("click", () => dialog.close());
  }

  /** Open the dialog; it keeps its values when it is closed. */
  async open() {
    this.dialog.showModal();
    setNotice(byId("new-run-alert"), "");
    try {
      const [active] = await get("/api/runs/", { query: ACTIVE_STATES.map((state) => `state=${state}`).join(" OR ") });
      boxOf(input("queue")).hidden = !active;
      input("queue").checked = Boolean(active);
      setText(byId("hint-queue"), active ? `Run ${active.id} (${active.title}) is active. This run waits in the queue.` : "");
      if (!this.#info) await this.#load();
    } catch (error) {
      setNotice(byId("new-run-alert"), `${error.message}. Close this dialog and open it again.`);
      return;
    }
    this.#refresh();
    input("benchmark").focus();
  }

  async #load() {
    const [info, benchmarks] = await Promise.all([get("/api/info/"), get("/api/benchmarks/")]);
    this.#benchmarks = [...benchmarks, OWN];
    const titleOf = (/** @type {string} */ name) => (name === CUSTOM ? "Your own image and command" : name);
    setOptions(input("benchmark"), this.#benchmarks.map(({ name }) => name), titleOf);
    input("benchmark").value = "digits";
    const { limits, pool } = info;
    input("num_workers").value = Math.min(2, limits.workers);
    input("num_cpus").step = limits.whole_cpus ? "1" : "any";
    limit("num_workers", limits.workers);
    limit("num_cpus", limits.cpus, limits.whole_cpus ? ", whole cores only" : "");
    if (limits.bandwidth?.most) limit("max_bandwidth", limits.bandwidth.most);
    if (pool === "local") {
      input("custom_image_name").value = "local";
      setText(byId("hint-custom_image_name"), "“local”: the command runs on this machine.");
    }
    this.#info = info;
    this.#adapt();
    byId("new-run-loading").hidden = true;
    byId("new-run-body").hidden = false;
    byId("start-run").disabled = false;
  }

  // Show the fields that the chosen benchmark has, and hide the others.
  #adapt() {
    const { limits } = this.#info;
    const benchmark = this.#benchmarks.find(({ name }) => name === input("benchmark").value);
    const backends = benchmark.backends.filter((name) => name !== "nccl" || limits.gpus > 0);
    const { description, target, light_target: lightTarget } = benchmark;
    const shown = {
      ...{ custom_image_name: benchmark === OWN, custom_image_command: benchmark === OWN, args: benchmark !== OWN },
      ...{ seed: benchmark.takes_seed, light_target: benchmark.has_light_target, backend: backends.length > 0 },
      ...{ gpu_enabled: benchmark.takes_gpu && limits.gpus > 0, max_bandwidth: limits.bandwidth !== null },
    };
    for (const [name, isShown] of Object.entries(shown)) boxOf(input(name)).hidden = !isShown;
    for (const box of this.form.querySelectorAll("[data-impairment]")) /** @type {any} */ (box).hidden = !limits.latency;
    setOptions(input("backend"), ["", ...backends.filter((name) => name !== "gloo")], (name) => name || "gloo (default)");
    setText(byId("hint-benchmark"), target ? `${description} Target: ${format.targetText(target)}.` : description);
    setText(byId("hint-light_target"), lightTarget ? `Light target: ${format.targetText(lightTarget)}.` : "Adds --light to the command.");
    const defaults = benchmark.options.map(({ name, default: usual }) => (usual == null ? name : `${name} = ${usual}`));
    setText(byId("known-args"), defaults.join(", "));
  }

  /** @returns {Values} of the fields that are shown */
  get #values() {
    const shown = this.inputs.filter((field) => !boxOf(field).hidden);
    return /** @type {any} */ (Object.fromEntries(shown.map((field) => [field.name, valueOf(field)])));
  }

  // Show the problems in fields that have been touched, or in all.
  #refresh(isSent = false) {
    if (!this.#touched.has("name")) input("name").value = defaultName(this.#values);
    for (const field of this.inputs) {
      const { hidden } = boxOf(field);
      const kind = (isSent || this.#touched.has(field.name)) && Object.keys(PROBLEMS).find((name) => field.validity[name]);
      const problem = (!hidden && this.#refused[field.name]) || (!hidden && kind && PROBLEMS[kind](field)) || "";
      setText(byId(`problem-${field.name}`), problem);
      field.setAttribute("aria-invalid", String(problem !== ""));
    }
  }

  async #send() {
    if (byId("start-run").disabled) return;
    this.#refused = {};
    setNotice(byId("new-run-alert"), "");
    this.#refresh(true);
    if (!this.form.querySelector("[aria-invalid=true]")) {
      byId("start-run").disabled = true;
      await post("/api/runs/", toOrder(this.#values)).then(({ id }) => location.assign(urlOf(`/runs/${id}`)), (error) => this.#refuse(error));
    }
    /** @type {HTMLElement} */ (this.form.querySelector("[aria-invalid=true], #new-run-alert:not([hidden])"))?.focus();
  }

  #refuse(/** @type {unknown} */ error) {
    byId("start-run").disabled = false;
    if (!(error instanceof ApiError)) throw error;
    const others = [];
    for (const [field, problem] of error.status === 400 ? Object.entries(error.fields) : []) {
      const [name, option] = field.split(".");
      if (input(name) && !boxOf(input(name)).hidden) this.#refused[name] = option ? `${option}: ${problem}` : problem;
      else others.push(field ? `${field}: ${problem}` : problem);
    }
    if (error.status === 409) {
      boxOf(input("queue")).hidden = false;
      input("queue").checked = true;
    }
    this.#refresh();
    setNotice(byId("new-run-alert"), error.status === 400 ? others.join("\n") : error.status === 0 ? LOST : error.message);
  }
}

/** @returns {Partial<RunRequest>} the order that a form describes, without defaults. */
export function toOrder(/** @type {Values} */ { benchmark, args = "", ...values }) {
  const given = Object.entries(values).filter(([, value]) => value != null && value !== "" && value !== false);
  const lines = args.split("\n").filter((line) => line.trim());
  const options = lines.map((line) => [line.split("=", 1)[0].trim(), line.replace(/^[^=]*=?/, "").trim()]);
  const code = { [benchmark === CUSTOM ? "image_name" : "benchmark"]: benchmark };
  return { ...code, ...Object.fromEntries(given), ...(args && { args: Object.fromEntries(options) }) };
}

/** @returns {string} a default name, which Kubernetes takes: the benchmark or the program, with date and time. */
export function defaultName(/** @type {Values} */ { benchmark, custom_image_command: command = "" }, now = new Date()) {
  // Swedish dates are written as in ISO 8601, here in local time.
  const moment = now.toLocaleString("sv").replace(/[-:]/g, "").replace(" ", "-");
  const [program] = command.trim().split(/\s/);
  const title = benchmark === CUSTOM ? program.replace(/^.*\//, "").replace(/(?<=.)\.[^.]+$/, "") : benchmark;
  const stem = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+/, "") || "run";
  return `${stem.slice(0, MAX_DEFAULT_LENGTH - moment.length - 1).replace(/-+$/, "")}-${moment}`;
}

function input(/** @type {string} */ name) {
  return byId(`new-${name}`);
}

function boxOf(field) {
  return field.closest(".field");
}

function valueOf(field) {
  if (field.type === "checkbox") return field.checked;
  return field.type === "number" && field.value ? Number(field.value) : field.value.trim();
}

function limit(name, most, addition = "") {
  input(name).max = most;
  const hint = byId(`hint-${name}`);
  setText(hint, `${hint.textContent} Maximum here: ${format.number(most)}${addition}.`);
}
