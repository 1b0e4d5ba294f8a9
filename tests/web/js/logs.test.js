import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import * as logs from "../../../master/mlbench_master/web/static/js/run/logwindow.js";

/** The window of a log to which these steps were applied. */
function play(/** @type {[string, ...any][]} */ ...steps) {
  /** @type {any} */
  const held = new logs.LogWindow();
  for (const [method, ...given] of steps) held[method](...given);
  const lines = Array.from({ length: held.count }, (_, place) => held.line(place));
  const { start, end, first, count, isAtEnd } = held;
  return { start, end, first, count, isAtEnd, lines };
}

/** What the API answers of a log. */
function page(/** @type {Buffer} */ log, start = 0, end = log.length, size = log.length) {
  return { text: log.toString("utf8", start, end), start, offset: end, size };
}

test("a line that is still being written goes on", () => {
  const log = Buffer.from("eins\nzwölf\ndrei");
  const held = play(["append", page(log, 0, 7, 7)]);
  deepEqual([held.lines, held.isAtEnd], [["eins", "zw"], true]);
  const more = play(["append", page(log, 0, 7, 7)], ["append", page(log, 7)]);
  deepEqual(more.lines, ["eins", "zwölf", "drei"]);
  deepEqual([more.start, more.end, more.isAtEnd], [0, log.length, true]);
});

test("a line in which a page breaks off is left to the next page", () => {
  const log = Buffer.from("eins\nzwölf\ndrei\n");
  const held = play(["append", page(log, 0, 9)]);
  deepEqual([held.lines, held.end, held.isAtEnd], [["eins"], 5, false]);
  const more = play(["append", page(log, 0, 9)], ["append", page(log, 5)]);
  deepEqual(more.lines, ["eins", "zwölf", "drei"]);
});

test("invalid bytes count once each", () => {
  const log = Buffer.from("\xff\xff\none\ntwo\n", "latin1");
  const held = play(["append", page(log, 0, 9)], ["append", page(log, 9)]);
  deepEqual([held.lines, held.end], [["\ufffd\ufffd", "one", "two"], log.length]);
});

test("upwards, lines keep their numbers", () => {
  const log = Buffer.from("a\nb\nc\nd\n");
  const held = play(["append", page(log, 4)], ["prepend", page(log, 0, 4)]);
  deepEqual(held.lines, ["a", "b", "c", "d"]);
  deepEqual([held.first, held.start, held.end], [-2, 0, 8]);
});

test("a log may be empty at first", () => {
  deepEqual(play().lines, []);
  const [none, line] = [Buffer.from(""), Buffer.from("one")];
  const held = play(["append", page(none)], ["append", page(line)]);
  deepEqual([held.lines, held.end], [["one"], 3]);
});

test("lines far from the reader are forgotten", () => {
  const numbers = Array.from({ length: 50_000 }, (_, i) => `${i}\n`);
  const log = Buffer.from(numbers.join(""));
  const atEnd = play(["append", page(log)], ["trim", 50_000, 50_000]);
  equal(atEnd.count <= 20_000, true);
  deepEqual([atEnd.lines.at(-1), atEnd.end], ["49999", log.length]);
  equal(atEnd.lines[0], String(atEnd.first));
  equal(log.toString("utf8", atEnd.start).startsWith(`${atEnd.lines[0]}\n`), true);
  const atStart = play(["append", page(log)], ["trim", 0, 40]);
  equal(atStart.count <= 20_000, true);
  deepEqual([atStart.lines[0], atStart.first, atStart.start], ["0", 0, 0]);
  equal(log.toString("utf8", atStart.end).startsWith(`${atStart.count}\n`), true);
});

test("a log whose pages always end within a line is forgotten, too", () => {
  const line = "a line — of some length";
  const log = Buffer.from(`${line}\n`.repeat(40_000));
  const width = Buffer.from(line).length + 1;
  const ends = Array.from({ length: 399 }, (_, i) => width * 100 * (i + 1) + 3);
  const pages = ends.map((end, i) => ["append", page(log, ends[i - 1] ?? 0, end, end)]);
  const held = play(.../** @type {any} */ (pages), ["trim", 40_000, 40_000]);
  equal(held.count <= 20_000, true);
  deepEqual([...new Set(held.lines.slice(0, -1))], [line]);
  equal(held.lines.at(-1), line.slice(0, 3));
  deepEqual([held.start % width, held.end], [0, ends.at(-1)]);
});

test("a progress bar does not grow", () => {
  const bars = Array.from({ length: 101 }, (_, i) => `\r${String(i).padStart(3)} %`);
  const log = Buffer.from(bars.join(""));
  const width = bars[0].length;
  const ends = bars.map((_, i) => (i + 1) * width);
  const steps = ends.map((end) => ["append", page(log, end - width, end, end)]);
  const held = play(.../** @type {any} */ (steps));
  deepEqual([held.lines, held.end], [[" 99 %\r100 %"], log.length]);
});

for (const [line, shown] of [
  ["plain <b>text</b>", "plain <b>text</b>"],
  ["\x1b[1;31mred\x1b[0m", "red"],
  ["\x1b]0;title\x07after", "after"],
  ["\x1b]0;title\x1b\\after", "after"],
  ["10 %\r100 %", "100 %"],
  ["long text\rshort", "shorttext"],
  ["whole\r", "whole"],
  ["\x1b[", "\x1b["],
  ["x".repeat(10_000), `${"x".repeat(4000)}… (10000 characters)`],
]) {
  test(`a terminal shows ${JSON.stringify(line).slice(0, 40)} so`, () =>
    equal(logs.shownLine(line), shown));
}

for (const [line, compacted] of [
  ["no return", "no return"],
  ["12345\rab\rX", "ab345\rX"],
  ["12345\r", "12345\r"],
  ["1 %\r2 %\r3 %\r", "3 %\r"],
]) {
  test(`${JSON.stringify(line)} keeps what is still seen`, () =>
    equal(logs.compact(line), compacted));
}

for (const [line, search, pieces] of /** @type {[string, string, string[]][]} */ ([
  ["an Error, an error", "ERROR", ["an ", "*Error", ", an ", "*error"]],
  ["aaa", "aa", ["*aa", "a"]],
  ["none", "x", ["none"]],
  ["none", "", ["none"]],
  [".*", "*", [".", "**"]],
  // In lowercase it has one letter more, and places would be wrong.
  ["İx", "x", ["İx"]],
])) {
  test(`"${search}" is highlighted in "${line}"`, () => {
    const texts = logs.highlight(line, search).map(({ text, isMatch }) => (isMatch ? "*" : "") + text);
    deepEqual(texts, pieces);
  });
}
