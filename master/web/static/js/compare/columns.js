// Writes a column's figures so that their digits stand below each other. Pure.

import { duration, number } from "../format.js";

const NONE = "–";
const DIGITS = 4;
const MOST_DECIMALS = 2;
const TINY = 1e-4;

/** @returns {(value: number | null) => string} writes each of `values` with as many decimals. */
export function numbers(/** @type {(number | null | undefined)[]} */ values) {
  const largest = Math.max(0, ...values.filter(Number.isFinite).map(Math.abs));
  if (largest < TINY) return (value) => number(value);
  const decimals = decimalsOf(largest);
  const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  const format = new Intl.NumberFormat("en", options);
  return (value) => (value == null ? NONE : format.format(value));
}

/** @returns {(value: number | null) => string} the same for seconds, in the unit that suits. */
export function durations(/** @type {(number | null | undefined)[]} */ values) {
  const largest = Math.max(0, ...values.filter(Number.isFinite));
  if (largest >= 60 || largest < 1) return duration;
  return (value) => (value == null ? NONE : `${value.toFixed(MOST_DECIMALS)} s`);
}

/** @returns {number} how many decimals show about four digits of the largest. */
function decimalsOf(largest) {
  if (largest < 1) return MOST_DECIMALS - Math.floor(Math.log10(largest));
  const before = Math.floor(Math.log10(largest)) + 1;
  return Math.max(0, Math.min(MOST_DECIMALS, DIGITS - before));
}
