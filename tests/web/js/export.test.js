import { equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { fileName, toCsv, toLatex, toMarkdown } from "../../../master/mlbench_master/web/static/js/export.js";

test("the points of a line are rows of CSV, and names are not formulas", () => {
  const lines = [
    { name: '=1+1, "a"', x: [1, 2], y: [-0.5, null], lows: [-1, NaN], highs: [0, 1e-7], smooth: [-0.5, NaN] },
    { name: "b", x: [3], y: [4] },
  ];
  equal(
    toCsv(lines, { x: "step", y: "-loss" }),
    "line,step,'-loss,low,high,smoothed\r\n" +
      `"'=1+1, ""a""",1,-0.5,-1,0,-0.5\r\n"'=1+1, ""a""",2,,,1e-7,\r\nb,3,4,,,\r\n`,
  );
  equal(toCsv([{ name: "b", x: [3], y: [4] }], {}), "line,x,value\r\nb,3,4\r\n");
});

const TABLE = [
  { cells: ["Run", "Best"], figures: [false, true] },
  { cells: ["a_1 | b", "97 % ≥ 5×"], figures: [false, true] },
];

test("tables are copied as Markdown and as LaTeX", () => {
  equal(toMarkdown(TABLE), "| Run | Best |\n| :-- | --: |\n| a_1 \\| b | 97 % ≥ 5× |\n");
  const lines = toLatex(TABLE, "50 %").split("\n");
  equal(lines[2], "  \\begin{tabular}{lr}");
  equal(lines[6], "  a\\_1 | b & 97 \\% $\\geq$ 5$\\times$ \\\\");
  equal(lines[9], "  \\caption{50 \\%}");
});

test("a file has the name of its chart", () => {
  equal(fileName("Run 7: Loss (50 %) über die Zeit!", "csv"), "run-7-loss-50-über-die-zeit.csv");
});
