// Writes numbers, times and sizes for people. Pure.

const LOCALE = "en";
const BYTES = ["B", "kB", "MB", "GB", "TB", "PB"];
/** @type {[number, string][]} */
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const NONE = "–";
// To make one takes a hundred times as long as to use it.
const WHOLE = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 0 });
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
/** @type {Intl.NumberFormat[]} */
const SIGNIFICANT = [];

/** @returns {string} a number with so many significant digits, thousands separated; – for none. */
export function number(/** @type {number | null | undefined} */ value, digits = 4) {
  if (value == null || Number.isNaN(value)) return NONE;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(digits - 1);
  const isLarge = Math.abs(value) >= 10 ** digits;
  if (isLarge) return WHOLE.format(value);
  SIGNIFICANT[digits] ??= new Intl.NumberFormat(LOCALE, { maximumSignificantDigits: digits });
  return SIGNIFICANT[digits].format(value);
}

/** @returns {string} a whole number, thousands separated. */
export function count(/** @type {number | null | undefined} */ value) {
  return value == null ? NONE : WHOLE.format(Math.round(value));
}

/** @returns {string} a share from 0 to 1 in percent. */
export function percent(/** @type {number | null | undefined} */ share, digits = 0) {
  return share == null || Number.isNaN(share) ? NONE : `${(share * 100).toFixed(digits)} %`;
}

/** @returns {string} seconds as `0.4 ms`, `3.42 s`, `2 min 05 s`, `1 h 07 min` or `3 d 4 h`. */
export function duration(/** @type {number | null | undefined} */ seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return NONE;
  if (seconds < 1) return seconds === 0 ? "0 s" : `${number(seconds * 1000, 3)} ms`;
  if (seconds < 60) return `${number(seconds, 3)} s`;
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
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 999.5 && unit < BYTES.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${value < 0 ? "−" : ""}${number(size, 3)} ${BYTES[unit]}`;
}

/** @returns {string} a value of a metric: percent for accuracies (`Prec@1`), else a plain number. */
export function metric(/** @type {string} */ name, /** @type {number | null} */ value) {
  return isPercent(name) && value != null ? `${number(value)} %` : number(value);
}

/** @returns {boolean} whether a metric is an accuracy, told in percent. */
export function isPercent(/** @type {string} */ name) {
  return /(^|_)Prec@\d+$/.test(name);
}

/** @returns {string} how long before `now` a moment was, such as `12 s ago` or `3 h ago`. */
export function ago(/** @type {string} */ date, /** @type {number} */ now) {
  const seconds = Math.max(0, (now - Date.parse(date)) / 1000);
  if (seconds < 2) return "just now";
  const [size, unit] = UNITS.find(([length]) => seconds >= length);
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

/** @returns {string} a moment in this browser's time zone, such as `21 Nov 2026, 14:49:25`. */
export function moment(/** @type {string | number | null} */ date) {
  return date == null ? NONE : MOMENT.format(new Date(date));
}

/** @returns {string} the time of day alone, such as `14:49:25`. */
export function clock(/** @type {string | number} */ date) {
  return CLOCK.format(new Date(date));
}
