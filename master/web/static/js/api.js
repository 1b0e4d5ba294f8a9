// Calls the REST API: JSON in, JSON out, errors that say which field is wrong.

const TIMEOUT_MS = 30_000;
// Clocks that differ by no more than this are taken to be the same: answers tell whole seconds.
const SAME_CLOCK_MS = 2000;

// What is wrong with a field may have a semicolon of its own.
const NEXT_FIELD = /; (?=[a-z_]+(?:\.[\w-]+)*: )/;

let aheadMs = 0;

/** What the API, or the network, says is wrong. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {number} status of HTTP; 0 where there was no answer
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }

  /** Whether asking again may help. */
  get isPassing() {
    return this.status === 0 || this.status === 503;
  }

  /** @returns {Record<string, string>} what is wrong by field; what names none is under "". */
  get fields() {
    return Object.fromEntries(this.message.split(NEXT_FIELD).map(splitField));
  }
}

/** Ask for `path` with query parameters; those that are null or undefined are left out. */
export function get(/** @type {string} */ path, /** @type {object} */ params = {}) {
  return call("GET", path + query(params));
}

/** Send `body` as JSON. */
export function post(/** @type {string} */ path, /** @type {object} */ body = {}) {
  return call("POST", path, body);
}

/** Delete what is at `path`. */
export function remove(/** @type {string} */ path) {
  return call("DELETE", path);
}

/** @returns {string} parameters as the end of a URL; a list gives one of the name for each entry. */
export function query(/** @type {Record<string, unknown>} */ params) {
  const pairs = Object.entries(params).flatMap(([name, value]) =>
    [value].flat().filter((one) => one != null).map((one) => [name, String(one)]),
  );
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

/** @returns {number} the master's time in Unix milliseconds, by which ages are told. */
export function now() {
  return Date.now() + aheadMs;
}

/** Leave for the page that asks for the token, and come back to this one after it. */
export function signIn() {
  const here = location.pathname + location.search + location.hash;
  location.replace(`/signin${query({ next: here })}`);
}

async function call(method, path, body) {
  let response;
  try {
    response = await fetch(path, {
      method,
      body: body && JSON.stringify(body),
      headers: body && { "Content-Type": "application/json" },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch {
    throw new ApiError("The master gives no answer", 0);
  }
  setClock(response.headers.get("Date"));
  if (response.status === 401) {
    signIn();
    return new Promise(() => {}); // the page is being left
  }
  let answer;
  try {
    answer = response.status === 204 ? null : await response.json();
  } catch {
    throw new ApiError("The master's answer broke off", 0);
  }
  if (!response.ok) throw new ApiError(answer.message, response.status);
  return answer;
}

function setClock(date) {
  const ahead = Date.parse(date ?? "") - Date.now();
  if (!Number.isNaN(ahead)) aheadMs = Math.abs(ahead) > SAME_CLOCK_MS ? ahead : 0;
}

function splitField(problem) {
  const found = /^([a-z_]+(?:\.[\w-]+)*): (.*)$/s.exec(problem);
  return found ? [found[1], found[2]] : ["", problem];
}
