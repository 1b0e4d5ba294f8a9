// Values that a page keeps with its entry of the history, where Back finds them again.

/** Keep values with this entry of the history. */
export function keep(/** @type {Record<string, unknown>} */ values) {
  history.replaceState({ ...history.state, ...values }, "");
}

/** @returns {any} the value that was kept under a name, after Back or a reload; else `otherwise`. */
export function kept(/** @type {string} */ name, /** @type {unknown} */ otherwise) {
  return history.state?.[name] ?? otherwise;
}
