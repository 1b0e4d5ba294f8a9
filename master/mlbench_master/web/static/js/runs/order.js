// The order of a new run: made from the form, checked, and written as commands for a terminal.

/** The longest name of a run that the API allows. */
export const MAX_NAME_LENGTH = 100;
// A default name is one that Kubernetes takes.
const MAX_DEFAULT_LENGTH = 40;
/** The choice, among the benchmarks, of the user's own code. */
export const CUSTOM = "custom_image";

/**
 * Bounds of a number.
 * @typedef {{
 *   least?: number, above?: number, most?: number | null, below?: number, whole?: boolean,
 *   needed?: boolean
 * }} Bounds
 */

// Parts of a request with separate fields in the form.
const SPECIAL = ["benchmark", "custom_image_command", "args"];
// Words that need no quotes.
const SAFE = /^[\w@%+=:,./-]+$/;

/**
 * The values of the form, without hidden fields. An empty number is null, a malformed one NaN.
 * @typedef {{
 *   name: string, benchmark: string, custom_image_name?: string, custom_image_command?: string,
 *   args?: { key: string, value: string }[]
 * } & Record<string, any>} Values
 *
 * The body of `POST /api/runs/`.
 * @typedef {Partial<import("../records.js").Schemas["RunRequest"]>} Order
 */

/** @returns {Order} the order that a form describes, without defaults. */
export function toOrder(/** @type {Values} */ values) {
  const isCustom = values.benchmark === CUSTOM;
  /** @type {Record<string, any>} */
  const order = { name: values.name, [isCustom ? "image_name" : "benchmark"]: values.benchmark };
  // Normalized, so that the form and `mlbench run` order the same.
  const command = normalize(values.custom_image_command ?? "");
  if (command) order.custom_image_command = command;
  for (const [name, value] of Object.entries(values)) {
    const isGiven = value != null && value !== "" && value !== false;
    if (isGiven && !SPECIAL.includes(name)) order[name] = value;
  }
  if (order.max_restarts === 0) delete order.max_restarts;
  const args = filledOptions(values).map(({ key, value }) => [key, value]);
  if (args.length) order.args = Object.fromEntries(args);
  return order;
}

/**
 * @param {Values} values
 * @param {Record<string, Bounds>} bounds of the numbers, and the limits of the installation
 * @returns {Record<string, string>} the problems by field; that of an option is under `args.KEY`
 */
export function problemsOf(values, bounds) {
  const problems = { name: nameProblem(values.name) };
  for (const name of Object.keys(bounds)) {
    if (name in values) problems[name] = numberProblem(values[name], bounds[name]);
  }
  if (values.benchmark === CUSTOM) {
    if (!values.custom_image_name) problems.custom_image_name = "image is required";
    problems.custom_image_command = commandProblem(values.custom_image_command ?? "");
  }
  const options = filledOptions(values);
  for (const { key } of options) {
    const isTwice = options.filter((option) => option.key === key).length > 1;
    problems[`args.${key}`] = isTwice ? "duplicate option" : keyProblem(key);
  }
  return Object.fromEntries(Object.entries(problems).filter(([, problem]) => problem));
}

function nameProblem(name) {
  if (!name) return "name is required";
  if (name.length > MAX_NAME_LENGTH)
    return `must have at most ${MAX_NAME_LENGTH} characters (got ${name.length})`;
  return /^\d+$/.test(name) ? "must not be a number, because numbers are run ids" : "";
}

function numberProblem(/** @type {number | null} */ value, /** @type {Bounds} */ bounds) {
  const { least, above, most, below, whole, needed } = bounds;
  if (value == null) return needed ? "number is required" : "";
  if (Number.isNaN(value)) return whole ? "must be a whole number" : "must be a number";
  if (whole && !Number.isInteger(value)) return `must be a whole number (got ${value})`;
  if (least != null && value < least) return `must be at least ${least} (got ${value})`;
  if (above != null && value <= above) return `must be more than ${above} (got ${value})`;
  if (below != null && value >= below) return `must be less than ${below} (got ${value})`;
  return most != null && value > most ? `must be at most ${most} here (got ${value})` : "";
}

function commandProblem(command) {
  const words = split(command);
  if (words === null) return "unclosed quotation mark";
  return words[0] ? "" : "program is required";
}

function keyProblem(key) {
  if (!key) return "option name is required";
  return /^[A-Za-z][A-Za-z0-9_-]{0,63}$/.test(key)
    ? ""
    : "name must start with a letter and have at most 64 letters, digits, _ and -";
}

// Empty rows are ignored.
function filledOptions(values) {
  return (values.args ?? []).filter(({ key, value }) => key || value);
}

/** @returns {string} a default name: the benchmark or the program, with date and time. */
export function defaultName(/** @type {Values} */ values, now = new Date()) {
  const two = (number) => String(number).padStart(2, "0");
  const date = [now.getFullYear(), two(now.getMonth() + 1), two(now.getDate())].join("");
  const time = [now.getHours(), now.getMinutes(), now.getSeconds()].map(two).join("");
  const moment = `-${date}-${time}`;
  const title = titleOf(values).toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  const stem = (title || "run").slice(0, MAX_DEFAULT_LENGTH - moment.length);
  return stem.replace(/-+$/, "") + moment;
}

function titleOf(/** @type {Values} */ { benchmark, custom_image_command: command }) {
  if (benchmark !== CUSTOM) return benchmark;
  const program = (split(command ?? "") ?? [])[0] ?? "";
  return program.replace(/^.*\//, "").replace(/(?<=.)\.[^.]+$/, "");
}

/**
 * @param {Order} order
 * @param {Record<string, string>} flags the options of the command line, by field
 * @returns {string} the `mlbench run` that orders the same.
 */
export function toCommandLine(order, flags) {
  const words = ["mlbench", "run"];
  const option = (name, value) => {
    if (value != null) words.push(name, quote(typeof value === "number" ? decimal(value) : value));
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
  const json = quote(JSON.stringify(order));
  return `curl -u me:$MLBENCH_TOKEN ${quote(`${url}/api/runs/`)} --json ${json}`;
}

// Not every option of the command line takes an exponent.
function decimal(number) {
  return number.toLocaleString("en", { useGrouping: false, maximumFractionDigits: 20 });
}

/** @returns {string[] | null} a command's words, as Python's shlex splits it; null if it cannot. */
export function split(/** @type {string} */ command) {
  const words = [];
  let word = null;
  let open = "";
  for (let i = 0; i < command.length; i++) {
    const sign = command[i];
    if (sign === "\\" && open !== "'") {
      i += 1;
      if (i === command.length) return null;
      // Between double quotes, a backslash escapes only these two.
      const isPlain = open === '"' && !'"\\'.includes(command[i]);
      word = (word ?? "") + (isPlain ? sign : "") + command[i];
    } else if (sign === open) {
      open = "";
    } else if (!open && (sign === '"' || sign === "'")) {
      open = sign;
      word ??= "";
    } else if (!open && " \t\r\n".includes(sign)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? "") + sign;
    }
  }
  if (open) return null;
  return word === null ? words : [...words, word];
}

function normalize(command) {
  return split(command)?.map(quote).join(" ") ?? command;
}

function quote(text) {
  return SAFE.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}
