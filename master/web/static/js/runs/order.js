// From what a form says to the order of a run, and what is wrong with it before it is sent. Pure.

import { normalize, split } from "./shell.js";

/** A run's name is a Kubernetes name; the API allows so many characters. */
export const LONGEST_NAME = 40;
/** The choice, among benchmarks, of one's own code. */
export const CUSTOM = "custom_image";

/**
 * What a number may be.
 * @typedef {{
 *   least?: number, above?: number, most?: number | null, whole?: boolean, needed?: boolean
 * }} Rules
 */

/**
 * The fields that hold a number, and what each may be beside the limits of an installation.
 * @type {Record<string, Rules>}
 */
export const NUMBERS = {
  num_workers: { least: 1, whole: true, needed: true },
  num_cpus: { above: 0 },
  max_bandwidth: { above: 0 },
  seed: { least: 0, most: 2 ** 32 - 1, whole: true },
  deadline_seconds: { above: 0 },
  max_restarts: { least: 0, most: 100, whole: true },
};
const TEXTS = ["custom_image_name", "backend"];
const CHECKS = ["gpu_enabled", "light_target", "queue"];

/**
 * What the form says: of fields that are not shown, nothing. An empty number is null, and what is
 * none is NaN.
 * @typedef {{
 *   name: string, benchmark: string, num_workers: number | null, num_cpus?: number | null,
 *   max_bandwidth?: number | null, gpu_enabled?: boolean, light_target?: boolean,
 *   seed?: number | null, backend?: string, deadline_seconds?: number | null,
 *   max_restarts?: number | null, custom_image_name?: string, custom_image_command?: string,
 *   args?: { key: string, value: string }[], queue?: boolean
 * }} Values
 */

/** @returns {object} the body of `POST /api/runs/`, without what goes without saying. */
export function toOrder(/** @type {Values} */ values) {
  const isCustom = values.benchmark === CUSTOM;
  /** @type {Record<string, any>} */
  const order = { name: values.name, [isCustom ? "image_name" : "benchmark"]: values.benchmark };
  for (const name of TEXTS) if (values[name]) order[name] = values[name];
  // As `mlbench run` writes it, which is given the words.
  const command = normalize(values.custom_image_command ?? "");
  if (command) order.custom_image_command = command;
  for (const name of Object.keys(NUMBERS)) if (values[name] != null) order[name] = values[name];
  for (const name of CHECKS) if (values[name]) order[name] = true;
  if (order.max_restarts === 0) delete order.max_restarts;
  const args = givenOptions(values).map(({ key, value }) => [key, value]);
  if (args.length) order.args = Object.fromEntries(args);
  return order;
}

/**
 * @param {Values} values
 * @param {Record<string, Rules>} limits of the installation
 * @returns {Record<string, string>} what is wrong by field, an option's under `args.KEY`
 */
export function problemsOf(values, limits) {
  const found = { name: nameProblem(values.name) };
  for (const [name, rules] of Object.entries(NUMBERS)) {
    if (name in values) found[name] = numberProblem(values[name], { ...rules, ...limits[name] });
  }
  if (values.benchmark === CUSTOM) {
    if (!values.custom_image_name) found.custom_image_name = "name an image";
    found.custom_image_command = commandProblem(values.custom_image_command ?? "");
  }
  const options = givenOptions(values);
  for (const { key } of options) {
    const isTwice = options.filter((one) => one.key === key).length > 1;
    found[`args.${key}`] = isTwice ? "is given twice" : keyProblem(key);
  }
  return Object.fromEntries(Object.entries(found).filter(([, problem]) => problem));
}

/** @returns {string} what is wrong with a run's name; empty if nothing is. */
export function nameProblem(/** @type {string} */ name) {
  if (!name) return "a run needs a name";
  if (name.length > LONGEST_NAME) return `at most ${LONGEST_NAME} characters (not ${name.length})`;
  if (/[^a-z0-9-]/.test(name)) return "lowercase letters, digits and hyphens only";
  if (/^-|-$/.test(name)) return "begins and ends with a letter or digit";
  return /^\d+$/.test(name) ? "a number alone is taken for a run's id" : "";
}

/** @returns {string} a name with date and time, as `mlbench run` makes it. */
export function makeName(/** @type {string} */ title, now = new Date()) {
  const two = (number) => String(number).padStart(2, "0");
  const date = [now.getFullYear(), two(now.getMonth() + 1), two(now.getDate())].join("");
  const time = [now.getHours(), now.getMinutes(), now.getSeconds()].map(two).join("");
  const moment = `-${date}-${time}`;
  const stem = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "") || "run";
  return stem.slice(0, LONGEST_NAME - moment.length).replace(/-+$/, "") + moment;
}

/** @returns {string} what a run of these is called by default: its benchmark or program. */
export function titleOf(/** @type {string} */ benchmark, /** @type {string} */ command) {
  if (benchmark !== CUSTOM) return benchmark;
  const program = (split(command) ?? [])[0] ?? "";
  return program.replace(/^.*\//, "").replace(/(?<=.)\.[^.]+$/, "");
}

function numberProblem(/** @type {number | null} */ value, /** @type {Rules} */ rules) {
  const { least, above, most, whole, needed } = rules;
  if (value === null || value === undefined) return needed ? "a number is needed" : "";
  if (Number.isNaN(value)) return whole ? "a whole number" : "a number";
  if (whole && !Number.isInteger(value)) return `a whole number (not ${value})`;
  if (least != null && value < least) return `at least ${least} (not ${value})`;
  if (above != null && value <= above) return `more than ${above} (not ${value})`;
  return most != null && value > most ? `at most ${most} here (not ${value})` : "";
}

function commandProblem(command) {
  const words = split(command);
  if (words === null) return "a quotation is not closed";
  return words.length ? "" : "it must name a program";
}

function keyProblem(key) {
  if (!key) return "it has no name";
  return /^[A-Za-z][A-Za-z0-9_-]{0,63}$/.test(key)
    ? ""
    : "its name has letters, digits, _ and -, at most 64, and begins with a letter";
}

// A row in which nothing was written says nothing.
function givenOptions(values) {
  return (values.args ?? []).filter(({ key, value }) => key || value);
}
