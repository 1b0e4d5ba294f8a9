import { equal } from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import "./browser.js";
import * as format from "../../../master/mlbench_master/web/static/js/format.js";

const { ago, bytes, count, duration, targetText } = format;
const { metric, metricTitle, moment, number, percent, plural } = format;
// A Python test reads the same file, because reports and the terminal use the same formats.
/** @type {[number, string][]} */
const DURATIONS = JSON.parse(readFileSync(new URL("durations.json", import.meta.url), "utf8"));
// The titles of mlbench/contract/metric_titles.py. A Python test reads the same file.
/** @type {Record<string, string>} */
const TITLES = JSON.parse(readFileSync(new URL("metric-titles.json", import.meta.url), "utf8"));
const noon = "2026-11-21T12:00:00Z";
const after = (/** @type {number} */ seconds) => Date.parse(noon) + 1000 * seconds;

for (const [text, expected] of [
  [number(null), "–"],
  [number(undefined), "–"],
  [number(NaN), "–"],
  [number(Infinity), "∞"],
  [number(-Infinity), "−∞"],
  [number(0), "0"],
  [number(0.123456), "0.1235"],
  [number(97.5), "97.5"],
  [number(1234567.8), "1,234,568"],
  [number(0.0000123456), "1.235e-5"],
  [count(1234567), "1,234,567"],
  [count(null), "–"],
  [plural(1, "run"), "1 run"],
  [plural(2000, "run"), "2,000 runs"],
  [percent(0.256), "26 %"],
  [percent(0.256, 1), "25.6 %"],
  [percent(null), "–"],
  [duration(null), "–"],
  ...DURATIONS.map(([seconds, text]) => [duration(seconds), text]),
  [bytes(null), "–"],
  [bytes(512), "512 B"],
  [bytes(999.7), "1 kB"],
  [bytes(1.28e9), "1.28 GB"],
  [bytes(-2048), "−2.05 kB"],
  [metric("val_global_Prec@1", 97.25), "97.25 %"],
  [metric("train_loss", 0.25), "0.25"],
  [metric("Prec@1", null), "–"],
  ...Object.entries(TITLES).map(([name, title]) => [metricTitle(name), title]),
  [targetText({ metric: "Prec@1", value: 97, lower_is_better: false }), "Accuracy ≥ 97 %"],
  [targetText({ metric: "loss", value: 0.5, lower_is_better: true }), "Loss ≤ 0.5"],
  [ago(noon, after(-5)), "just now"],
  [ago(noon, after(1)), "just now"],
  [ago(noon, after(12)), "12 s ago"],
  [ago(noon, after(11_400)), "3 h ago"],
  [moment("2026-11-21T12:34:56.789000Z"), "21 Nov 2026, 13:34:56"],
  [moment(null), "–"],
  [format.spans([0, 1, 2, 5]), "0–2, 5"],
]) {
  test(`writes ${expected}`, () => equal(text, expected));
}

for (const [align, values, expected] of /** @type {const} */ ([
  [format.alignedNumbers, [98.626, 7, null], "98.63 7.00 –"],
  [format.alignedNumbers, [6467.7, 482.25], "6,468 482"],
  [format.alignedNumbers, [0.0581, 0.4], "0.058 0.400"],
  [format.alignedNumbers, [0.00001], "1.0e-5"],
  [format.alignedNumbers, [], ""],
  [format.alignedDurations, [35.07, 2.5, null], "35.07 s 2.50 s –"],
  [format.alignedDurations, [125, 2.5, 0.25], "125.00 s 2.50 s 0.25 s"],
  [format.alignedDurations, [33.6045782, 0, 0], "33.60 s 0.00 s 0.00 s"],
  [format.alignedDurations, [1800, 0.5 * 3600], "30.00 min 30.00 min"],
])) {
  test(`aligns ${expected}`, () => equal(values.map(align([...values])).join(" "), expected));
}
