// The order of a new run: made from the form, and written as commands for a terminal.

const MAX_DEFAULT_LENGTH = 40;
/** The choice, among the benchmarks, of the user's own code. */
export const CUSTOM = "custom_image";
// Words that need no quotes.
const SAFE = /^[\w@%+=:,./-]+$/;
// A part of a word: an escaped character, a part in single or double quotes, or plain text.
const PART = /\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)"|[^\s'"\\]+/s;

/**
 * @typedef {{ name: string, benchmark: string, custom_image_command?: string, args?: string } & Record<string, any>} Values
 *   of the form, without hidden fields; `args` has a line `KEY = VALUE` for each option
 * @typedef {Partial<RunRequest>} Order the body of `POST /api/runs/`
 */

/** @returns {Order} the order that a form describes, without defaults. */
export function toOrder(/** @type {Values} */ { benchmark, custom_image_command: command, args = "", ...values }) {
  const given = Object.entries(values).filter(([, value]) => value != null && value !== "" && value !== false);
  /** @type {Record<string, any>} */
  const order = { [benchmark === CUSTOM ? "image_name" : "benchmark"]: benchmark, ...Object.fromEntries(given) };
  // Normalized, so that the form and `mlbench run` order the same.
  if (command) order.custom_image_command = split(command)?.map(quote).join(" ") ?? command;
  const lines = args.split("\n").filter((line) => line.trim());
  const options = lines.map((line) => [line.split("=", 1)[0].trim(), line.replace(/^[^=]*=?/, "").trim()]);
  if (args) order.args = Object.fromEntries(options);
  return order;
}

/** @returns {string} a default name, which Kubernetes takes: the benchmark or the program, with date and time. */
export function defaultName(/** @type {Values} */ { benchmark, custom_image_command: command = "" }, now = new Date()) {
  // Swedish dates are written as in ISO 8601, here in local time.
  const moment = now.toLocaleString("sv").replace(/[-:]/g, "").replace(" ", "-");
  const program = split(command)?.[0]?.replace(/^.*\//, "").replace(/(?<=.)\.[^.]+$/, "");
  const title = benchmark === CUSTOM ? (program ?? "") : benchmark;
  const stem = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+/, "") || "run";
  return `${stem.slice(0, MAX_DEFAULT_LENGTH - moment.length - 1).replace(/-+$/, "")}-${moment}`;
}

/** @returns {string} the `mlbench run` that orders the same; `flags` are the options of the command line, by field. */
export function toCommandLine(/** @type {Order} */ order, /** @type {Record<string, string>} */ flags) {
  const words = ["mlbench", "run"];
  // Not every option of the command line takes an exponent.
  const write = (value) => value.toLocaleString("en", { useGrouping: false, maximumFractionDigits: 20 });
  const option = (name, value) => {
    if (value != null) words.push(name, quote(write(value)));
  };
  if (order.benchmark) words.push(quote(order.benchmark));
  option("--name", order.name);
  for (const [name, flag] of Object.entries(flags)) {
    if (order[name] === true) words.push(flag);
    else option(flag, order[name]);
  }
  for (const [key, value] of Object.entries(order.args ?? {})) option("--set", `${key}=${value}`);
  option("--image", order.custom_image_name);
  if (order.queue) words.push("--queue");
  if (order.custom_image_command) words.push("--", order.custom_image_command); // quoted already
  return words.join(" ");
}

/** @returns {string} the `curl` that orders the same from the master at `url`. */
export function toCurl(/** @type {Order} */ order, /** @type {string} */ url) {
  return `curl -u me:$MLBENCH_TOKEN ${quote(`${url}/api/runs/`)} --json ${quote(JSON.stringify(order))}`;
}

/** @returns {string[] | null} a command's words, as Python's shlex splits it; null if it cannot. */
export function split(/** @type {string} */ command) {
  const words = command.match(new RegExp(`(?:${PART.source})+`, "gs")) ?? [];
  if (command.replace(new RegExp(PART, "gs"), "").trim()) return null; // a quotation mark or backslash is left
  const unquoted = (part, escaped, single, double) => escaped ?? single ?? double?.replace(/\\(["\\])/g, "$1") ?? part;
  return words.map((word) => word.replace(new RegExp(PART, "gs"), unquoted));
}

function quote(text) {
  return SAFE.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}
