import { deepEqual, equal, rejects } from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { ApiError, get, now, post, query, remove } from "../../../master/mlbench_master/web/static/js/api.js";

/** The requests that were sent. @type {any[]} */
let sent = [];

/** Make the master respond with this body. */
function answer(/** @type {any} */ body, status = 200, headers = {}) {
  globalThis.fetch = async (path, options) => {
    sent.push([options.method, path, options.body]);
    if (body instanceof Error) throw body;
    return new Response(body, { status, headers });
  };
}

beforeEach(() => (sent = []));

for (const [params, text] of /** @type {[any, string][]} */ ([
  [{}, ""],
  [{ a: null, b: undefined }, ""],
  [{ tail: 0, search: "a&b c", on: false }, "?tail=0&search=a%26b+c&on=false"],
  [{ metric_filter: ["loss", "Prec@1"] }, "?metric_filter=loss&metric_filter=Prec%401"],
])) {
  test(`parameters become ${text || "nothing"}`, () => equal(query(params), text));
}

for (const [message, fields] of /** @type {[string, object][]} */ ([
  ["name: too long", { name: "too long" }],
  ["name: long; num_workers: at most 4", { name: "long", num_workers: "at most 4" }],
  ["args.goal: light_target says 90", { "args.goal": "light_target says 90" }],
  ["run 3 (first) is active", { "": "run 3 (first) is active" }],
  // Messages may contain semicolons.
  [
    "num_cpus: whole cores only (not 1.5); seed: steps takes no seed; leave it out",
    { num_cpus: "whole cores only (not 1.5)", seed: "steps takes no seed; leave it out" },
  ],
])) {
  test(`${message} is split by field`, () => deepEqual(new ApiError(message, 400).fields, fields));
}

test("JSON is sent and received", async () => {
  answer('{"id": 1}');
  deepEqual(await get("/api/runs/", { from_id: 3 }), { id: 1 });
  deepEqual(await post("/api/runs/", { name: "ü" }), { id: 1 });
  answer(null, 202);
  equal(await remove("/api/runs/7/"), null);
  deepEqual(sent, [
    ["GET", "/api/runs/?from_id=3", undefined],
    ["POST", "/api/runs/", '{"name":"ü"}'],
    ["DELETE", "/api/runs/7/", undefined],
  ]);
});

test("an unchanged response is taken from the cache", async () => {
  answer('{"id": 1}', 200, { ETag: '"a"' });
  const first = await get("/api/runs/7/");
  answer(null, 304);
  equal(await get("/api/runs/7/"), first);
});

for (const [body, status, error] of /** @type {[any, number, object][]} */ ([
  ['{"message": "gone"}', 404, { message: "gone", status: 404, isPassing: false }],
  ['{"message": "full"}', 503, { message: "full", status: 503, isPassing: true }],
  // A proxy responds like this while the master behind it starts.
  ["<h1>Bad gateway</h1>", 502, { message: "The master's response is incomplete", isPassing: true }],
  [new Error("refused"), 0, { message: "The master does not respond", status: 0, isPassing: true }],
])) {
  test(`a response with status ${status} raises ${JSON.stringify(error)}`, async () => {
    answer(body, status);
    await rejects(get("/api/pods/"), error);
  });
}

test("the current time is the master's", async () => {
  const ahead = async (/** @type {number} */ seconds) => {
    answer("1", 200, { Date: new Date(Date.now() + 1000 * seconds).toUTCString() });
    await get("/");
    return Math.round((now() - Date.now()) / 1000);
  };
  equal(Math.abs((await ahead(100)) - 100) <= 1, true);
  equal(await ahead(0.5), 0);
});

test("a page without a session redirects to sign-in and back", async () => {
  /** @type {string[]} */
  const led = [];
  globalThis.location = /** @type {any} */ ({
    pathname: "/runs",
    search: "?a=1",
    hash: "#b",
    replace: (/** @type {string} */ url) => led.push(url),
  });
  answer("{}", 401);
  const unanswered = get("/api/runs/");
  await Promise.race([unanswered, new Promise((resolve) => setTimeout(resolve, 10))]);
  deepEqual(led, ["/signin?next=%2Fruns%3Fa%3D1%23b"]);
});
