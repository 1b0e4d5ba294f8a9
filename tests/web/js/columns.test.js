import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";

Object.assign(globalThis, { location: { search: "" } });
const { completions, nextOrder, textOf } = await import(
  "../../../master/mlbench_master/web/static/js/runs/columns.js"
);

const { termsOf } = await import("../../../master/mlbench_master/web/static/js/runs/groups.js");

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

test("values are texts for people", () => {
  deepEqual([null, "", 0.25, false, "topk"].map(textOf), ["–", "–", "0.25", "false", "topk"]);
  equal(textOf("2026-03-01T09:21:29Z").includes("2026"), true);
});
