// Keeps what a list is narrowed to in the address bar, so that a reload and a link show the same.

/** @returns {string} a parameter of this page's address; empty where there is none. */
export function fromAddress(/** @type {string} */ name) {
  return new URLSearchParams(location.search).get(name) ?? "";
}

/** Set parameters of this page's address, without a new entry in the history; empty ones go. */
export function toAddress(/** @type {Record<string, string>} */ params) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(params)) {
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  url.search = url.search.replaceAll("%2C", ","); // a list of runs stays readable
  if (url.href !== location.href) history.replaceState(null, "", url);
}
