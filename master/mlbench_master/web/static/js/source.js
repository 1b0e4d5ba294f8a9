// The data of a page that is a file: responses of the API, which mlbench/report writes into it.

const element = globalThis.document?.getElementById("data");
const data = element?.textContent ? JSON.parse(element.textContent) : null;

/** Whether the page is a file, which has no master to ask. */
export const isFile = data !== null;

/** @returns {string | undefined} the file with the page at a path of the master, such as `/runs/1`. */
export function fileOf(/** @type {string} */ path) {
  return data.files[path];
}

/** @returns {any} the API's response to a GET of `path`; undefined if the file does not have it. */
export function find(/** @type {string} */ path) {
  const { pathname, searchParams } = new URL(path, "http://master");
  const response = data.responses[path] ?? data.responses[pathname];
  return pathname.startsWith("/api/metrics/") ? select(response, searchParams) : response;
}

/** @returns {boolean} whether the file has the response to a GET of `path` with other parameters. */
export function hasOther(/** @type {string} */ path) {
  const start = `${new URL(path, "http://master").pathname}?`;
  return Object.keys(data.responses).some((other) => other.startsWith(start));
}

/**
 * @param {Record<string, Point[]> | undefined} series
 * @param {URLSearchParams} params those of `/api/metrics/{id}/`
 */
function select(series, params) {
  if (!series || params.get("lineage") === "discarded") return series && {};
  const names = params.getAll("metric_filter");
  const isWanted = (name) => !names.length || names.some((other) => [name, name.replace(/ @ \d+$/, "")].includes(other));
  return Object.fromEntries(Object.entries(series).filter(([name]) => isWanted(name)));
}
