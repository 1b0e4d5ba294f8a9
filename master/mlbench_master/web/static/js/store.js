// What a page keeps: with its entry of the history, where Back finds it again, or in this browser.

/** Keep values with this entry of the history. */
export function keep(/** @type {Record<string, unknown>} */ values) {
  history.replaceState({ ...history.state, ...values }, "");
}

/** @returns {any} what was kept under a name, after Back or a reload; else `otherwise`. */
export function kept(/** @type {string} */ name, /** @type {unknown} */ otherwise) {
  return history.state?.[name] ?? otherwise;
}

/** Remember a value in this browser; undefined forgets it. */
export function remember(/** @type {string} */ name, /** @type {unknown} */ value) {
  if (value === undefined) localStorage.removeItem(name);
  else localStorage.setItem(name, JSON.stringify(value));
}

/** @returns {any} what this browser remembers under a name; else `otherwise`. */
export function remembered(/** @type {string} */ name, /** @type {unknown} */ otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise; // of another version, or edited
  }
}
