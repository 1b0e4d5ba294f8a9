import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";

Object.assign(globalThis, { location: { search: "" }, localStorage: { getItem: () => null } });
const { differingSettings, disturbedText, nextOrder, textOf, titleOf, writerOf } = await import(
  "../../../master/mlbench_master/web/static/js/runs/columns.js"
);

const groups = await import("../../../master/mlbench_master/web/static/js/runs/groups.js");
const { completions, isComplete, termsOf } = await import("../../../master/mlbench_master/web/static/js/runs/filter.js");
const { labelOf, secondsOf, topOf } = await import("../../../master/mlbench_master/web/static/js/runs/curves.js");
const { cornersOf } = await import("../../../master/mlbench_master/web/static/js/bars.js");

test("clicks on a header sort in descending order, ascending order, and not at all", () => {
  deepEqual(["", "-a", "a", "b"].map((order) => nextOrder(order, "a")), ["-a", "a", "", "-a"]);
});

const FIELDS = ["exchange", "exact", "seed"].map((name) => ({ name, help: "" }));
const VALUES = { exchange: ["ddp", "topk", "two words"] };
const texts = (term) => completions(term, FIELDS, (name) => VALUES[name] ?? []).map(({ text }) => text);

test("the field, operator and value of a term are completed in turn", () => {
  deepEqual(texts("ex"), ["exchange", "exact"]);
  deepEqual(texts("seed").slice(0, 3), ["seed=", "seed!=", "seed>"]);
  deepEqual(texts("exchange=T"), ["exchange=topk", 'exchange="two words"']);
  deepEqual(texts("seed=3 OR NOT exch"), ["seed=3 OR NOT exchange"]);
  deepEqual(texts(""), []);
});

test("a query is split into the same terms as by the API", () => {
  const query = 'workers >= 2  tag:paper a OR NOT b  "two words" name="a ""b""" NOT c';
  const terms = ["workers>=2", "tag:paper", "a OR NOT b", '"two words"', 'name="a ""b"""', "NOT c"];
  deepEqual(termsOf(query), terms);
  deepEqual(termsOf(terms.join(" ")), terms);
  deepEqual(["a", "a=", "a OR", "NOT", 'a="b', 'a="b"'].map(isComplete), [true, false, false, false, false, true]);
});

/** A run with these settings. @returns {any} */
const withSettings = (/** @type {object} */ settings, swept = {}) => ({ settings, args: {}, swept });

test("differing settings are the ones that most runs have with different values", () => {
  const common = { momentum: 0.9, seed: 1 };
  const runs = [
    withSettings({ ...common, rate: 0.1, decay: 1, only: 1 }, { exchange: "topk" }),
    withSettings({ ...common, seed: 2, rate: 0.2, decay: 2 }, { exchange: "ddp" }),
  ];
  deepEqual(differingSettings(runs), ["exchange", "rate", "decay"]);
  deepEqual(differingSettings(runs.slice(1)), []);
});

test("the query of a group matches its runs", () => {
  const values = { exchange: "topk", set: null, swept: "rate=1, x=2", command: 'sh "a b"', tag: "", seed: 3 };
  equal(groups.termsOf(values), 'exchange=topk set="" swept="rate=1, x=2" command="sh ""a b""" tag="" seed=3');
});

test("a group shows the number of code versions of its runs", () => {
  deepEqual([0, 1, 2].map((code_versions) => groups.versionsOf({ code_versions })), ["", "", "2 versions"]);
});

const TARGET = { metric: "val_global_Prec@1", value: 50, lower_is_better: false };

test("curves are drawn over training time and have a text description", () => {
  const curve = { run_id: 1, metric: TARGET.metric, seconds: [5, 10, 15], values: [0, 50, 100], training_seconds: [0, 5, 10] };
  deepEqual(secondsOf(curve), [0, 5, 10]);
  deepEqual(secondsOf({ ...curve, training_seconds: [null, 5, 10] }), [5, 10, 15]);
  deepEqual(secondsOf({ ...curve, training_seconds: [] }), [5, 10, 15]);
  equal(labelOf(curve), "Validation accuracy from 0 % to 100 %");
});

test("the scale ends at 100 % for an accuracy, and at a multiple of the target for a falling metric", () => {
  deepEqual([TARGET, { metric: "perplexity", value: 50, lower_is_better: true }].map(topOf), [100, 150]);
});

for (const [x, y, corners] of /** @type {[number[], number[], string][]} */ ([
  [[0, 50, 100], [0, 5, 10], "0.0,22.0 50.0,12.0 100.0,2.0"],
  // Values outside the scale are clipped, and NaN is left out.
  [[0, 50, 100, 120], [-5, NaN, 99, 5], "0.0,22.0 100.0,2.0 120.0,12.0"],
  [[50], [5], "46.0,12.0 50.0,12.0"], // a short line
  [[], [], ""],
]))
  test(`the sparkline of ${y} has the corners "${corners}"`, () => equal(cornersOf({ x, y, to: 100, high: 10, label: "" }), corners));

test("a column has one unit and a readable name", () => {
  const texts = (id, values, unit) => values.map(writerOf(id, values, unit));
  deepEqual(texts("duration", [0.5, 12.34, 1834], "s"), ["0.50 s", "12.34 s", "1,834.00 s"]);
  deepEqual(texts("best", [98.12, 97.5, 0.00031]), ["98.12", "97.50", "0.00031"]);
  deepEqual(texts("goodput", [0.784, null]), ["78 %", "–"]);
  deepEqual(texts("workers", [2, 16]), ["2", "16"]);
  deepEqual(texts("exchange", ["ddp", 2]), ["ddp", "2"]);
  const names = ["time_to_target", "val_global_Prec@1", "train_loss.min", "packet_loss", "exchange"];
  deepEqual(names.map(titleOf), ["Time to target", "Validation accuracy", "Training loss, lowest", "Packet loss", "Exchange"]);
});

test("values are formatted for display", () => {
  deepEqual([null, "", 0.25, false, "topk"].map(textOf), ["–", "–", "0.25", "false", "topk"]);
  equal(textOf("2026-03-01T09:21:29Z").includes("2026"), true);
});

test("the mark of a disturbed run has its CPU contention, which may be small if it was profiled", () => {
  equal(disturbedText(/** @type {any} */ ({ contention_share: 0.01 })), "Disturbed: results may be distorted; CPU contention 1 %");
});
