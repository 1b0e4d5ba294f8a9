// Writes numbers, times and sizes for people.

const LOCALE = "en";
const BYTES = ["B", "kB", "MB", "GB", "TB", "PB"];
/** @type {[number, string][]} units of time in seconds, the largest first */
export const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
/** Written for a value that is not known. */
export const NONE = "–";
const TINY = 1e-4;
// With three significant digits, from here on a duration is a second, or a minute.
const MIN_SECOND = 0.9995;
// Below, a column of durations is in milliseconds.
const MIN_ALIGNED_SECOND = 0.1;
const MIN_MINUTE = 59.95;
// Making a formatter takes a hundred times as long as using it.
const WHOLE = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 0 });
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
/** @type {Intl.NumberFormat[]} */
const SIGNIFICANT = [];

/** @returns {string} a number with at most that many significant digits, thousands separated. */
export function number(/** @type {number | null | undefined} */ value, digits = 4) {
  if (value == null || Number.isNaN(value)) return NONE;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value !== 0 && Math.abs(value) < TINY) return value.toExponential(digits - 1);
  if (Math.abs(value) >= 10 ** digits) return WHOLE.format(value);
  SIGNIFICANT[digits] ??= new Intl.NumberFormat(LOCALE, { maximumSignificantDigits: digits });
  return SIGNIFICANT[digits].format(value);
}

/** @returns {string} a whole number, thousands separated. */
export function count(/** @type {number | null | undefined} */ value) {
  return value == null ? NONE : WHOLE.format(Math.round(value));
}

/** @returns {string} a number of things, such as `1 run` or `2,000 runs`. */
export function plural(/** @type {number} */ value, /** @type {string} */ noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** @returns {string} ascending whole numbers, such as `0–3, 7`. */
export function spans(/** @type {number[]} */ numbers) {
  const ranges = [];
  for (const number of numbers) {
    const last = ranges.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([from, to]) => (from === to ? from : `${from}–${to}`)).join(", ");
}

/** @returns {string} a share from 0 to 1 in percent. */
export function percent(/** @type {number | null | undefined} */ share, digits = 0) {
  return share == null || Number.isNaN(share) ? NONE : `${(share * 100).toFixed(digits)} %`;
}

/** @returns {string} seconds, as reports and the terminal have them: `0.4 ms`, `3.42 s`, `2 min 05 s`, `1 h 07 min` or `3 d 4 h`. */
export function duration(/** @type {number | null | undefined} */ seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return NONE;
  if (seconds < MIN_SECOND) return seconds === 0 ? "0 s" : `${number(seconds * 1000, 3)} ms`;
  if (seconds < MIN_MINUTE) return `${number(seconds, 3)} s`;
  const whole = Math.round(seconds);
  const [days, hours] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24];
  const [minutes, rest] = [Math.floor(whole / 60) % 60, whole % 60];
  const two = (value) => String(value).padStart(2, "0");
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${two(minutes)} min` : `${minutes} min ${two(rest)} s`;
}

/** @returns {string} bytes as `512 B` or `1.28 GB`. */
export function bytes(/** @type {number | null | undefined} */ value) {
  if (value == null || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  const unit = BYTES.findIndex((_, i) => size < 999.5 * 1000 ** i || i === BYTES.length - 1);
  return `${value < 0 ? "−" : ""}${number(size / 1000 ** unit, 3)} ${BYTES[unit]}`;
}

/** @returns {string} a value of a metric: accuracies such as `Prec@1` in percent. */
export function metric(/** @type {string} */ name, /** @type {number | null} */ value) {
  return isPercent(name) && value != null ? `${number(value)} %` : number(value);
}

// The words of mlbench/contract/metric_titles.py; tests of both read the same examples.
const VALIDATION = "Validation";
const STAGES = new Map(Object.entries({
  ...{ train: "Training", training: "Training", val: VALIDATION, val_global: VALIDATION, valid: VALIDATION },
  ...{ validation: VALIDATION, eval: VALIDATION, test: "Test" },
}));
const QUANTITIES = new Map(Object.entries({
  ...{ loss: "loss", acc: "accuracy", accuracy: "accuracy", "Prec@1": "accuracy", "Prec@5": "top-5 accuracy" },
  ...{ R2: "R²", perplexity: "perplexity", Perplexity: "perplexity" },
}));
const RECORDED = new Map(Object.entries({
  ...{ learning_rate: "Learning rate", epoch: "Epoch", step: "Step", samples: "Samples" },
  ...{ train_seconds: "Training time", bytes_sent_per_step: "Bytes sent per step" },
}));

/** @returns {string} the title of a metric: `Validation accuracy` for `val_global_Prec@1`; else its name. */
export function metricTitle(/** @type {string} */ name) {
  const [, stage, last] = /^(?:(.+)[_/-])?(.*)$/.exec(name);
  const quantity = QUANTITIES.get(last);
  if (!quantity || (stage && !STAGES.has(stage))) return RECORDED.get(name) ?? name;
  return stage ? `${STAGES.get(stage)} ${quantity}` : quantity[0].toUpperCase() + quantity.slice(1);
}

/** @returns {boolean} whether a metric is an accuracy in percent. */
export const isPercent = (/** @type {string} */ name) => /(^|_)Prec@\d+$/.test(name);

/** @returns {string} a target, such as `Validation accuracy ≥ 97 %`. */
export function targetText(/** @type {Target} */ aim) {
  return `${metricTitle(aim.metric)} ${aim.lower_is_better ? "≤" : "≥"} ${metric(aim.metric, aim.value)}`;
}

/** @returns {string} the unit of a run's throughput: `Samples`, or `Tokens` if its settings say so. */
export function samples(/** @type {Run} */ run) {
  const noun = String(run.settings?.sample ?? "sample");
  return `${noun[0].toUpperCase()}${noun.slice(1)}s`;
}

/** @returns {string} how long before `now` a moment was, such as `12 s ago` or `3 h ago`. */
export function ago(/** @type {string} */ date, /** @type {number} */ now) {
  const seconds = Math.max(0, (now - Date.parse(date)) / 1000);
  if (seconds < 2) return "just now";
  const [size, unit] = UNITS.find(([length]) => seconds >= length);
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

/** @returns {string} a moment in the browser's time zone, such as `21 Nov 2026, 14:49:25`. */
export function moment(/** @type {string | number | null} */ date) {
  return date == null ? NONE : MOMENT.format(new Date(date));
}

/** @returns {string} a day and a time without seconds, such as `21 Nov, 14:49`; another year is named. */
export function day(/** @type {string} */ date) {
  const at = new Date(date);
  const year = at.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return at.toLocaleString("en-GB", { day: "numeric", month: "short", year, hour: "2-digit", minute: "2-digit" });
}

/** @returns {(value: number | null) => string} writes numbers with the same decimals, about three or four digits of their median. */
export function alignedNumbers(/** @type {(number | null | undefined)[]} */ values) {
  const size = Math.floor(Math.log10(Math.max(median(values), TINY)));
  const decimals = Math.min(4, size < 0 ? 2 - size : Math.max(0, Math.min(2, 3 - size)));
  const { format } = new Intl.NumberFormat(LOCALE, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const isLost = (value) => value !== 0 && Math.abs(value) < 0.5 * 10 ** -decimals;
  return (value) => (value == null ? NONE : isLost(value) ? number(value, 2) : format(value));
}

/** @returns {(value: number | null | undefined) => string} the same for seconds, all in the unit of their median. */
export function alignedDurations(/** @type {(number | null | undefined)[]} */ values) {
  const middle = median(values);
  const [size, unit] = UNITS.find(([length, name]) => name !== "d" && middle >= 10 * length) ?? (middle < MIN_ALIGNED_SECOND ? [0.001, "ms"] : [1, "s"]);
  const write = alignedNumbers(values.map((value) => value && value / size));
  return (value) => (value == null ? NONE : `${write(value / size)} ${unit}`);
}

function median(values) {
  // A zero is written in any unit.
  const known = values.filter((value) => value && Number.isFinite(value)).map(Math.abs).sort((a, b) => a - b);
  return known[Math.floor(known.length / 2)] ?? 1;
}
