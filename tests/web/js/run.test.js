import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import * as curves from "../../../master/mlbench_master/web/static/js/run/curves.js";
import { pathOf } from "../../../master/mlbench_master/web/static/js/run/files.js";
import { factsOf } from "../../../master/mlbench_master/web/static/js/run/head.js";
import { operationsOf, peaksOf } from "../../../master/mlbench_master/web/static/js/run/messages.js";
import { addedTo, few, figuresOf, judgeDelivery } from "../../../master/mlbench_master/web/static/js/run/progress.js";
import { rankFigures, worstFirst } from "../../../master/mlbench_master/web/static/js/run/ranks.js";

/** Return a series whose points stand for one sample each. */
function of(/** @type {number[]} */ times, /** @type {number[]} */ values) {
  return { times, values, lows: values, highs: values };
}

for (const [metrics, target, charts] of /** @type {[string[], string | null, object][]} */ ([
  [[], null, {}],
  [["step", "train_seconds", "data_seconds"], null, {}],
  [
    ["val_global_loss", "train_loss", "train_Prec@1", "train_Prec@5", "step"],
    "train_Prec@1",
    { Loss: ["train_loss", "val_global_loss"], Accuracy: ["train_Prec@1"] },
  ],
  [["train_Prec@1", "train_Prec@5"], "train_Prec@5", { Accuracy: ["train_Prec@5"] }],
  [["val_global_R2"], null, { "R²": ["val_global_R2"] }],
  [["reward"], "reward", { reward: ["reward"] }],
  [["reward"], "score", {}],
])) {
  test(`${metrics} with the target ${target} have the charts ${Object.keys(charts)}`, () => {
    const pairs = curves.chartsOf(metrics, target).map((chart) => [chart.title, chart.metrics]);
    deepEqual(Object.fromEntries(pairs), charts);
  });
}

test("selected ranks are drawn, as one curve if their values are equal", () => {
  const different = new Map([[0, of([1, 2], [1, 2])], [1, of([1, 2], [3, 4])]]);
  const drawn = (/** @type {any} */ ranks, /** @type {string} */ chosen) =>
    curves.curvesOf("loss", ranks, chosen).map(({ name, series }) => [name, ...series.values]);
  deepEqual(drawn(different, curves.ALL), [["loss, mean", 2, 3]]);
  deepEqual(drawn(different, curves.EACH), [["loss, rank 0", 1, 2], ["loss, rank 1", 3, 4]]);
  deepEqual(drawn(different, "1"), [["loss", 3, 4]]);
  deepEqual(drawn(new Map([[0, of([1], [5])], [1, of([1], [5])]]), curves.EACH), [["loss", 5]]);
  deepEqual(drawn(new Map(), curves.ALL), []);
});

for (const [seconds, unit, place] of /** @type {[number, string, number][]} */ ([
  [119, "seconds", 60],
  [120, "minutes", 1],
  [2 * 3600, "hours", 1 / 60],
])) {
  test(`${seconds} s are shown in ${unit}`, () => {
    const axis = curves.timeAxis("1970-01-01T00:00:10Z", 10_000 + 1000 * seconds);
    equal(axis.title, `Wall-clock time (${unit})`);
    deepEqual(axis.place([70_000]), [place]);
  });
}

/** Return times and values of the throughput of ranks. */
function throughput(/** @type {any[]} */ samples, /** @type {any[]} */ clocks = []) {
  const { times, values } = curves.throughput(new Map(samples.entries()), new Map(clocks.entries()));
  return [times, values];
}

test("throughput uses wall-clock time if the training time is not known", () => {
  const samples = of([0, 1000, 3000], [0, 50, 250]);
  deepEqual(throughput([samples]), [[1000, 3000], [50, 100]]);
  const clock = of([0, 3000], [0, 1.5]);
  deepEqual(throughput([samples], [clock]), [[1000, 3000], [100, 200]]);
});

test("the throughput of a short interval is merged into the next one", () => {
  const samples = of([0, 1000, 2000, 2050, 3000], [0, 100, 200, 201, 300]);
  deepEqual(throughput([samples]), [[1000, 2000, 3000], [100, 100, 100]]);
  // The minimum interval is shorter in a run of less than ten seconds.
  deepEqual(throughput([of([0, 100, 200], [0, 10, 20])]), [[100, 200], [100, 100]]);
});

test("throughput is the sum over all ranks", () => {
  const [first, second] = [of([0, 1000, 2000], [0, 10, 20]), of([0, 2000], [0, 200])];
  deepEqual(throughput([first, second]), [[1000, 2000], [110, 110]]);
  // The total ends where a stopped rank has no more samples.
  const stopped = of([0, 1000], [0, 100]);
  deepEqual(throughput([first, stopped]), [[1000], [110]]);
});

test("a restart is not progress, and a single total has no rate", () => {
  const samples = of([0, 1000, 2000, 3000], [0, 100, 30, 80]);
  deepEqual(throughput([samples]), [[1000, 3000], [100, 50]]);
  deepEqual(throughput([of([0], [5])]), [[], []]);
  deepEqual(throughput([]), [[], []]);
});

const WORKER = { rank: 0, pod: "", exit_code: null, stopped: "", processes: [0] };

test("each process of a worker is a rank with its own results", () => {
  const ranks = /** @type {any[]} */ ([0, 2].map((rank) => ({ rank, steps: 10 })));
  const processes = [[0, 1], [2]];
  const workers = processes.map((its, rank) => ({ ...WORKER, rank, processes: its }));
  const stragglers = /** @type {any} */ ({ ranks: [{ rank: 2, seconds: 1.75 }] });
  const rows = rankFigures(workers, { ranks, stragglers, goodput: null });
  deepEqual(rows.map((row) => [row.rank, row.worker.rank, row.figures?.steps, row.late]), [
    [0, 0, 10, null],
    [1, 0, undefined, null],
    [2, 1, 10, 1.75],
  ]);
  equal(rankFigures(workers, null).length, 3);
});

test("failed ranks are listed first, then the ranks with the longest compute time per step", () => {
  const rank = (number, seconds, exit_code = 0) =>
    /** @type {any} */ ({ rank: number, worker: { ...WORKER, exit_code }, figures: seconds && { compute_seconds: seconds } });
  const rows = worstFirst([rank(0, 0.05), rank(1, 0.12), rank(2, null), rank(3, 0.01, 3)]);
  deepEqual(rows.map((row) => row.rank), [3, 1, 0, 2]);
});

test("a rank's wait is the sum over all attempts of its worker, if stragglers were measured", () => {
  const parts = [{ rank: 0, seconds: { waiting: 2 } }, { rank: 0, seconds: { waiting: 3 } }, { rank: 1, seconds: {} }];
  const workers = [0, 1].map((rank) => ({ ...WORKER, rank, processes: [rank] }));
  const waits = (stragglers) =>
    rankFigures(workers, /** @type {any} */ ({ ranks: [], stragglers, goodput: { ranks: parts } })).map((row) => row.waits);
  deepEqual([waits({ ranks: [] }), waits(null)], [[5, 0], [null, null]]);
});

const RUN = {
  ...{ benchmark: "", command: "python train.py", settings: null, swept: {}, num_workers: 2, world_size: 2, tags: [] },
  ...{ title: "a", display_name: "a", origin: null, launcher: "", attempt: 1, max_restarts: 0, started_at: null, finished_at: null },
  ...{ seed: null, max_bandwidth: null, faults: null, set_name: null, created_at: "2026-01-02T03:04:05Z", state: "FINISHED", target: null, user: "" },
};

test("the header has the distinctive settings of a run, without defaults", () => {
  const settings = { learning_rate: 0.1, batch_size: 64, exchange: "ddp", momentum: 0.9 };
  const run = { ...RUN, settings, swept: { batch_size: "64" }, seed: 0, attempt: 2, max_restarts: 3, tags: ["paper"] };
  const facts = factsOf(/** @type {any} */ (run), null, "0123456789abcdef", 0);
  deepEqual(facts.filter(({ name }) => name).map(({ name, value }) => `${name} ${value}`), [
    "batch 64", "lr 0.1", "momentum 0.9", "workers 2", "seed 0", "attempt 2 of 4", "commit 0123456",
  ]);
  deepEqual([facts[0].value, facts.at(-1).value], ["train.py", "paper"]);
});

test("results that could not be loaded are shown as not known", () => {
  const target = { metric: "val_global_Prec@1", value: 90, lower_is_better: false };
  const run = /** @type {any} */ ({ ...RUN, target });
  const values = (result, state) => figuresOf(run, result, 0, state).map(([, value]) => value);
  const unknown = figuresOf(run, null, 0, { isMissing: true }).filter(([name]) => name !== "Wall clock");
  deepEqual(new Set(unknown.map(([, value]) => value)), new Set(["not known"]));
  equal(values(null, {}).includes("not reached"), false);
  const result = /** @type {any} */ ({ best_value: 61.84, time_to_target: null, ranks: [], goodput: { share: 0.41 } });
  deepEqual(values(result, { isMissing: true }).slice(0, 2), ["61.84 %", "not reached"]);
  deepEqual(figuresOf(run, result, 0).map(([name]) => name)[0], "Validation accuracy");
});

test("messages are grouped by operation, in the order of measurement", () => {
  const metrics = {
    message_bytes: of([1, 2, 3], [8, 4, 8]),
    broadcast_float32_seconds: of([3], [2e-6]),
    broadcast_float32_bus_bandwidth_bytes_per_second: of([3], [4e6]),
    all_reduce_float32_seconds: of([1, 2], [2e-6, 1e-6]),
    all_reduce_float32_bus_bandwidth_bytes_per_second: of([1, 2], [4e9, 2e9]),
    all_reduce_float32_wrong_values: of([1, 2], [0, 0]),
    all_reduce_seconds_more: of([1], [1]),
  };
  const operations = operationsOf(new Map(Object.entries(metrics).map(([name, series]) => [name, new Map([[0, series]])])));
  deepEqual(operations.map(({ name }) => name), ["all_reduce float32", "broadcast float32"]);
  deepEqual(operations[0].messages.map(({ bytes, bus, wrong }) => [bytes, bus, wrong]), [[4, 2e9, 0], [8, 4e9, 0]]);
  deepEqual(peaksOf(operations).map(([name, value]) => `${name}: ${value}`), [
    "All-reduce, peak: 4 GB/s", "Broadcast, peak: 0.004 GB/s", "Wrong values: 0",
  ]);
});

for (const [fields, verdict, text] of /** @type {[any, string, RegExp][]} */ ([
  [{ state: "STARTED" }, "open", /^Samples are counted/],
  [{ waiting: "Prometheus is away" }, "open", /^Not yet counted: Prometheus is away/],
  [{ state: "FAILED" }, "open", /^Not counted/],
  [{ delivery: [5, 4, 1] }, "good", /^No missing samples: 5 recorded, 4 in Prometheus, 1 in the record only/],
  [{ delivery: [0, 0, 0] }, "open", /recorded nothing/],
  [{ delivery: [5, 3, 1] }, "bad", /^Prometheus lacks 1 of 5/],
  [{ delivery: [5, 5, 1] }, "bad", /^Prometheus has 1 sample too many/],
])) {
  test(`the delivery of ${JSON.stringify(fields)} is ${verdict}`, () => {
    const counts = fields.delivery;
    const delivery = counts && { recorded: counts[0], in_prometheus: counts[1], record_only: counts[2] };
    const run = /** @type {any} */ ({ state: "FINISHED", waiting: "", ...fields, delivery });
    const judgement = judgeDelivery(run);
    equal(judgement.verdict, verdict);
    equal(text.test(judgement.text), true, judgement.text);
  });
}

test("times are placed by the clock of their rank, or else of any rank, and the last epoch has an end", () => {
  const clock = (values) => ({ times: [0, 1000, 2000], values, lows: values, highs: values });
  const ranks = new Map([[0, clock([0, 300, 600])], [1, clock([0, 100, 600])]]);
  const training = curves.clockAxis("training", ranks);
  equal(training.title, "Training time (minutes)");
  deepEqual([training.place([1000, 1500], 1), training.place([1000]), training.place([1000], 7)], [[100 / 60, 350 / 60], [5], [5]]);
  const late = curves.clockAxis("training", new Map([[0, { times: [2000, 3000], values: [1, 2], lows: [1, 2], highs: [1, 2] }]]));
  deepEqual(late.place([500, 1500, 2500], 0), [NaN, 0.5, 1.5]);
  const epochs = curves.clockAxis("epoch", new Map([[0, clock([1, 2, 3])]]));
  deepEqual(epochs.place([500, 2500, 3000, 9000], 0), [1.5, 3.5, 4, 4]);
  deepEqual(curves.clockAxis("epoch", new Map()).place([1]), [NaN]);
});

test("special characters in the URL of a file are escaped", () => {
  const file = { name: "a b/c?d#e.png", rank: 3, attempt: 2 };
  equal(pathOf(1, file), "/api/runs/1/files/a%20b/c%3Fd%23e.png?rank=3&attempt=2");
});

test("the first of many similar warnings are shown, and the others counted", () =>
  deepEqual(few([..."abcdef"]), ["a", "b", "c", "d", ["e", "f"]]));

test("late samples are reported by origin", () => {
  const at = "2026-03-01T09:21:29.347960Z";
  const tell = (samples, of_lost_ranks) =>
    addedTo({ added: { samples, of_lost_ranks, first_at: at, last_at: at } }).map((text) => text.split(",")[0]);
  deepEqual(addedTo({ added: null }), []);
  deepEqual(tell(1, 0), ["1 sample was added after the end"]);
  deepEqual(tell(3, 3), ["3 samples were sent by ranks after they were lost"]);
  deepEqual(tell(3, 1), ["2 samples were added after the end", "1 sample was sent by ranks after they were lost"]);
});
