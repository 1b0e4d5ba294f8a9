import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";

Object.assign(globalThis, { location: { search: "" } });
const { completions, nextOrder, textOf } = await import(
  "../../../master/mlbench_master/web/static/js/runs/columns.js"
);

const { termsOf } = await import("../../../master/mlbench_master/web/static/js/runs/groups.js");
const { labelOf, pointsOf } = await import("../../../master/mlbench_master/web/static/js/runs/curves.js");

test("clicks on a head sort down, up, and no more", () => {
  deepEqual(["", "-a", "a", "b"].map((order) => nextOrder(order, "a")), ["-a", "a", "", "-a"]);
});

test("the last word is completed", () => {
  const names = ["exchange", "exact", "seed"];
  deepEqual(completions("seed=3 exch", names), ["seed=3 exchange"]);
  deepEqual(completions("seed,ex", names), ["seed,exchange", "seed,exact"]);
  deepEqual(completions("seed ", names), []);
});

test("a query finds the runs of a group", () => {
  const values = { exchange: "topk", set: null, swept: "rate=1, x=2", command: 'sh "a b"', tag: "", seed: 3 };
  equal(termsOf(values), 'exchange=topk set="" swept="rate=1, x=2" command="sh ""a b""" tag="" seed=3');
});

test("a curve fills its space, and is said in words", () => {
  const curve = { run_id: 1, metric: "val_global_Prec@1", seconds: [0, 5, 10], values: [10, 50, 90] };
  equal(pointsOf(curve), "2.0,24.0 38.0,13.0 74.0,2.0");
  equal(pointsOf({ ...curve, seconds: [0], values: [3] }), "2.0,24.0 2.0,24.0"); // a dot
  equal(labelOf(curve), "val_global_Prec@1 from 10 % to 90 %");
});

test("values are texts for people", () => {
  deepEqual([null, "", 0.25, false, "topk"].map(textOf), ["–", "–", "0.25", "false", "topk"]);
  equal(textOf("2026-03-01T09:21:29Z").includes("2026"), true);
});
