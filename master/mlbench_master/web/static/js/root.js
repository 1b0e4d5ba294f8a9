// The path below which a proxy serves the master.

const root = globalThis.document?.body?.dataset.root ?? "";

/** @returns {string} the URL of a path of the master, such as `/runs/1`; other URLs do not change. */
export function urlOf(/** @type {string} */ path) {
  return path.startsWith("/") ? root + path : path;
}
