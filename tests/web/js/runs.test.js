import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import "./browser.js";
import { nextName, toOrder as toNextOrder } from "../../../master/mlbench_master/web/static/js/run/head.js";
import { codeOf, errorOf, notFiniteOf, originOf, sweptOf } from "../../../master/mlbench_master/web/static/js/records.js";
import { CUSTOM, defaultName, toOrder } from "../../../master/mlbench_master/web/static/js/runs/new-run.js";

const FIELDS = ["num_workers", "seed", "num_cpus", "gpu_enabled", "backend", "max_restarts"];

/** A form with these fields. @returns {any} */
function form(/** @type {object} */ fields) {
  return { name: "mine", benchmark: "digits", num_workers: 2, ...fields };
}

test("a request omits defaults", () => {
  const values = form({ seed: 0, num_cpus: null, gpu_enabled: false, args: "" });
  const expected = { name: "mine", benchmark: "digits", num_workers: 2, seed: 0 };
  deepEqual(toOrder(values), expected);
});

test("options are read from lines of the form", () => {
  const { args } = toOrder(form({ args: "learning_rate = 1e-2\n\nnote=a=b" }));
  deepEqual(args, { learning_rate: "1e-2", note: "a=b" });
});

test("a default name has the benchmark or command, and the time", () => {
  const now = new Date(2026, 10, 21, 9, 5, 7);
  equal(defaultName(form({}), now), "digits-20261121-090507");
  const own = { benchmark: CUSTOM, custom_image_command: "./My Train.py --a" };
  equal(defaultName(form(own), now), "my-20261121-090507");
});

/** A run as the API shows it. @returns {any} */
function run(/** @type {object} */ fields) {
  return {
    name: "digits",
    display_name: "digits",
    swept: {},
    benchmark: "digits",
    args: {},
    image: "local",
    command: "python -m worker",
    working_dir: null,
    backend: "gloo",
    run_all_nodes: true,
    num_workers: 2,
    num_cpus: null,
    max_bandwidth: null,
    gpu_enabled: false,
    light_target: false,
    seed: null,
    deadline_seconds: null,
    max_restarts: 0,
    ...fields,
  };
}

test("a benchmark is repeated with its options", () => {
  const again = { name: "digits-2", num_workers: 2, benchmark: "digits", queue: true };
  deepEqual(toNextOrder(run({}), FIELDS), again);
  const args = { epochs: "3", backend: "mpi", seed: "0", device: "cuda" };
  const given = { seed: 0, gpu_enabled: true, num_cpus: 0.5, max_restarts: 1 };
  deepEqual(toNextOrder(run({ args, ...given }), FIELDS), {
    ...again,
    ...given,
    args: { epochs: "3" },
    backend: "mpi",
  });
  // Options that are not fields of the request stay options.
  const options = { seed: "7", device: "cuda" };
  deepEqual(toNextOrder(run({ args: options }), FIELDS).args, options);
});

for (const [backend, isOnAll, expected] of /** @type {[string, boolean, object][]} */ ([
  ["gloo", true, { backend: "custom_backend", custom_backend: "gloo", run_all_nodes: true }],
  ["mpi", false, { backend: "custom_backend", custom_backend: "mpi" }],
  ["mpi", true, { backend: "custom_backend", custom_backend: "mpi", run_all_nodes: true }],
  ["ring", false, { backend: "custom_backend", custom_backend: "ring" }],
])) {
  test(`a command is repeated with ${JSON.stringify(expected)}`, () => {
    const own = { benchmark: "", image: "me/code:1", command: "python 'a b.py'" };
    deepEqual(toNextOrder(run({ ...own, backend, run_all_nodes: isOnAll }), FIELDS), {
      name: "digits-2",
      num_workers: 2,
      image_name: "custom_image",
      custom_image_name: "me/code:1",
      custom_image_command: "python 'a b.py'",
      ...expected,
      queue: true,
    });
  });
}

for (const [name, following] of [
  ["digits", "digits-2"],
  ["digits-2", "digits-3"],
  ["digits-999", "digits-1000"],
  ["digits-20261121-120000", "digits-20261121-120000-2"],
  ["a".repeat(100), `${"a".repeat(98)}-2`],
  [`${"a".repeat(97)}-bc`, `${"a".repeat(97)}-2`],
  [`${"a".repeat(98)}-9`, `${"a".repeat(97)}-10`],
]) {
  test(`the name after ${name} is ${following}`, () => equal(nextName(name), following));
}

for (const [command, code] of [
  [".venv/bin/python train.py --epochs 3", "train.py"],
  ["/opt/x/bin/python3 -m my.training --a b", "my.training"],
  ["torchrun --nproc-per-node 2 code/train.py", "train.py"],
  ["./own.sh", "own.sh"],
  ["/usr/bin/true", "true"],
]) {
  test(`the code of ${command} is ${code}`, () => equal(codeOf({ benchmark: "", command }), code));
}

test("a failed run is explained by its error", () => {
  const reason = "rank 1 on w-1 exited with code 1\nTraceback\nValueError: too many\n";
  equal(errorOf({ reason }), "ValueError: too many");
  equal(errorOf({ reason: "why\n[rank0]: a.b_c.WorldError: lost [1]: x" }), "WorldError: lost [1]: x");
});

test("a NaN loss is reported with its first step", () => {
  const loss = { metric: "train_loss", rank: "0", step: 1200, since: "2026-01-01T00:00:00Z" };
  equal(notFiniteOf({ not_finite: loss }), "Training loss is not a number since step 1,200");
  equal(notFiniteOf({ not_finite: { ...loss, step: null } }), "Training loss is not a number");
  equal(notFiniteOf({ not_finite: null }), "");
});

test("swept values have readable option names", () => {
  equal(sweptOf({ swept: { learning_rate: "0.1", exchange: "topk" } }), "learning rate 0.1, exchange topk");
  equal(sweptOf({ swept: {} }), "");
});

test("a run shows its origin or its launcher", () => {
  const imported = { installation: "lab", run_id: 3, imported_at: "", set_name: null, slot: null };
  equal(originOf({ origin: imported, launcher: "slurm" }), "run 3 of lab");
  equal(originOf({ origin: null, launcher: "slurm" }), "started by slurm");
  equal(originOf({ origin: null, launcher: "" }), "");
});
