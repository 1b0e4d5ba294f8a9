import { deepEqual, equal } from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

import "./browser.js";
import { poll } from "../../../master/mlbench_master/web/static/js/poll.js";

const connection = document.getElementById("connection");
let calls = 0;
/** @type {string[]} */
let errors = [];
/** @type {{ now: () => void }} */
let polling;
let isOver = false;

/** Poll a task with these responses; the last one is repeated. */
function start(/** @type {(number | null | "away" | "wrong")[]} */ ...answers) {
  const task = async () => {
    if (isOver) return null;
    const answer = answers[Math.min(calls++, answers.length - 1)];
    if (answer === "away") throw Object.assign(new Error("No answer"), { isPassing: true });
    if (answer === "wrong") throw Object.assign(new Error("It is gone"), { isPassing: false });
    return answer;
  };
  polling = poll(task, (error) => errors.push(error.message));
}

/** Advance the clock. */
async function pass(/** @type {number} */ ms) {
  await settle();
  mock.timers.tick(ms);
  await settle();
}

async function settle() {
  for (let i = 0; i < 10; i++) await Promise.resolve();
}

function hide(/** @type {boolean} */ hidden) {
  Object.assign(document, { hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  [calls, errors, isOver] = [0, [], false];
});

afterEach(async () => {
  isOver = true;
  polling.now();
  await settle();
  hide(false);
  mock.timers.reset();
});

test("polling ends when the task returns null", async () => {
  start(1000, 1000, null);
  await pass(999);
  equal(calls, 1);
  await pass(1);
  equal(calls, 2);
  await pass(100_000);
  await pass(100_000);
  equal(calls, 3);
});

test("a hidden page polls less often", async () => {
  hide(true);
  start(1000);
  await pass(5999);
  equal(calls, 1);
  await pass(1);
  equal(calls, 2);
  hide(false);
  equal(calls, 3);
});

test("an ended poll stays ended when the page is shown again", async () => {
  start(1000, null);
  await pass(1000);
  hide(true);
  hide(false);
  equal(calls, 2);
});

test("an unreachable master is reported, and polled at increasing intervals", async () => {
  start(1000, "away", "away", 1000);
  await pass(0);
  equal(connection.hidden, true);
  await pass(1000);
  equal(connection.hidden, false);
  equal(connection.textContent, "No answer. Retrying…");
  await pass(1000);
  equal(calls, 3);
  await pass(1999);
  equal(calls, 3);
  await pass(1);
  equal(calls, 4);
  equal(connection.hidden, true);
  deepEqual(errors, []);
});

test("any other error ends polling until the next explicit call", async () => {
  start("wrong", 1000);
  await pass(100_000);
  deepEqual([calls, errors], [1, ["It is gone"]]);
  polling.now();
  await pass(1000);
  deepEqual([calls, errors], [3, ["It is gone"]]);
});

test("the report of an unreachable master disappears when polling ends", async () => {
  start("away", "wrong");
  await pass(0);
  equal(connection.hidden, false);
  await pass(1000);
  equal(connection.hidden, true);
});

test("an explicit call polls immediately", async () => {
  start(5000);
  await pass(0);
  polling.now();
  equal(calls, 2);
  await pass(5000);
  equal(calls, 3);
});
