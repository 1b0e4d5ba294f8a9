import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import { matchesIn, pieceOf, shownLine } from "../../../master/mlbench_master/web/static/js/run/logs.js";

/** Return a piece of a log from the API's response for a range of bytes. */
function piece(/** @type {Buffer} */ log, start = 0, end = log.length, isWhole = false) {
  return pieceOf({ text: log.toString("utf8", start, end), start, offset: end }, isWhole);
}

test("an incomplete line is fetched again with the rest", () => {
  const log = Buffer.from("eins\nzwölf\ndrei\n");
  const first = piece(log, 0, 9);
  deepEqual([first.lines, first.rest, first.end, first.offset], [["eins"], "zwö", 5, 9]);
  const second = piece(log, first.end);
  deepEqual([second.lines, second.rest, second.end], [["zwölf", "drei"], "", log.length]);
});

test("a log may be empty or consist of one incomplete line", () => {
  deepEqual(piece(Buffer.from("")), { start: 0, end: 0, offset: 0, lines: [], rest: "" });
  deepEqual(piece(Buffer.from("one")), { start: 0, end: 0, offset: 3, lines: [], rest: "one" });
  deepEqual(piece(Buffer.from("one"), 0, 3, true), { start: 0, end: 3, offset: 3, lines: ["one"], rest: "" });
});

test("an incomplete line is split if it is long or contains invalid bytes", () => {
  const invalid = piece(Buffer.from("one\n\xff\xff", "latin1"));
  deepEqual([invalid.lines, invalid.rest, invalid.end], [["one", "\ufffd\ufffd"], "", 6]);
  const bar = Buffer.from("\r 10 %".repeat(20_000));
  deepEqual([piece(bar).lines.map(shownLine), piece(bar).end], [[" 10 %"], bar.length]);
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
  test(`${JSON.stringify(line).slice(0, 40)} is shown like in a terminal`, () => equal(shownLine(line), shown));
}

for (const [line, search, parts] of /** @type {[string, string, string[]][]} */ ([
  ["an Error, an error", "ERROR", ["an ", "Error", ", an ", "error", ""]],
  ["aaa", "aa", ["", "aa", "a"]],
  ["none", "x", ["none"]],
  ["none", "", ["none"]],
  [".*", "*", [".", "*", ""]],
  // The lowercase form of İ has one more character.
  ["İx", "X", ["İ", "x", ""]],
])) {
  test(`"${search}" is highlighted in "${line}"`, () => deepEqual(matchesIn(line, search), parts));
}
