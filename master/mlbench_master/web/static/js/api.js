// Client of the REST API: JSON in and out, and errors that name the wrong fields. A page that is a
// file has the responses in it.

import { urlOf } from "./root.js";
import { find, hasOther, isFile } from "./source.js";

const TIMEOUT_MS = 30_000;
// The Date header has whole seconds, so smaller differences between clocks are ignored.
const SAME_CLOCK_MS = 2000;
// Between the messages of two fields; a message may contain a semicolon, too.
const NEXT_FIELD = /; (?=[a-z_]+(?:\.[\w-]+)*: )/;
const FIELD = /^([a-z_]+(?:\.[\w-]+)*): (.*)$/s;
const WITHOUT_CONTENT = [202, 204];
const MAX_ANSWERS = 20;

let aheadMs = 0;
let isLeaving = false;
// The latest responses with an entity tag, so that unchanged data is not sent again.
const answers = new Map();

/** An error that the API answered with; the status is 0 for a request without an answer. */
export class ApiError extends Error {
  constructor(/** @type {string} */ message, /** @type {number} */ status) {
    super(message);
    this.status = status;
  }

  /** Whether the same request may succeed later. */
  get isPassing() {
    return this.status === 0 || this.status === 503;
  }

  /** @returns {Record<string, string>} the messages by field; "" for one without a field. */
  get fields() {
    const toPair = (/** @type {string} */ message) => FIELD.exec(message)?.slice(1) ?? ["", message];
    return Object.fromEntries(this.message.split(NEXT_FIELD).map(toPair));
  }
}

/** Get `path` with query parameters; null and undefined ones are left out. */
export const get = (/** @type {string} */ path, /** @type {object} */ params = {}) => call("GET", path + query(params));

/** Get `path` like `get`, or null if it does not exist. */
export function getOrNull(/** @type {string} */ path, /** @type {object} */ params = {}) {
  return get(path, params).catch((error) => (error.status === 404 ? null : Promise.reject(error)));
}

/** Post `body` as JSON. */
export const post = (/** @type {string} */ path, /** @type {object} */ body = {}) => call("POST", path, body);

/** Change the fields in `body` of the resource at `path`. */
export const patch = (/** @type {string} */ path, /** @type {object} */ body) => call("PATCH", path, body);

/** Delete the resource at `path`. */
export const remove = (/** @type {string} */ path) => call("DELETE", path);

/** @returns {string} a query string; an array becomes one parameter per entry. */
export function query(/** @type {Record<string, unknown>} */ params) {
  const pairs = Object.entries(params).flatMap(([name, value]) =>
    [value].flat().filter((item) => item != null).map((item) => [name, String(item)]),
  );
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

/** @returns {number} the master's clock in Unix milliseconds; ages are relative to it. */
export function now() {
  return Date.now() + aheadMs;
}

async function call(method, path, body) {
  if (isFile) {
    const found = method === "GET" ? find(path) : undefined;
    if (found !== undefined) return found;
    throw new ApiError("This file does not contain it", hasOther(path) ? 400 : 404);
  }
  let response;
  const last = method === "GET" ? answers.get(path) : undefined;
  try {
    response = await fetch(urlOf(path), {
      method,
      body: body && JSON.stringify(body),
      headers: body ? { "Content-Type": "application/json" } : last && { "If-None-Match": last.tag },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch {
    throw new ApiError("The master does not respond", 0);
  }
  const ahead = Date.parse(response.headers.get("Date") ?? "") - Date.now();
  if (!Number.isNaN(ahead)) aheadMs = Math.abs(ahead) > SAME_CLOCK_MS ? ahead : 0;
  if (response.status === 401) {
    // The sign-in page leads back to this page. If several requests get this response, only the
    // first one navigates: a second navigation would cancel the first.
    if (!isLeaving) location.replace(urlOf(`/signin${query({ next: location.pathname + location.search + location.hash })}`));
    isLeaving = true;
    return new Promise(() => {});
  }
  if (response.status === 304) return last.answer;
  let answer;
  try {
    answer = WITHOUT_CONTENT.includes(response.status) ? null : await response.json();
  } catch {
    throw new ApiError("The master's response is incomplete", 0);
  }
  if (!response.ok) throw new ApiError(answer.message, response.status);
  const tag = response.headers.get("ETag");
  if (method === "GET" && tag) {
    answers.delete(path);
    answers.set(path, { tag, answer });
    if (answers.size > MAX_ANSWERS) answers.delete(answers.keys().next().value);
  }
  return answer;
}
