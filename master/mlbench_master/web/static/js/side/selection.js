// Which runs an address selects, in an order that gives each its colour.

const FREE = "-";
const RUN_ID = /^[1-9]\d{0,14}$/;

/**
 * A selected run. Its place gives its colour, and stays while other runs come and go.
 * @typedef {{ id: number, place: number }} Selected
 */

/** @returns {Selected[]} the distinct runs in a text such as `7,-,9`, in which a place is free. */
export function parseSelection(/** @type {string} */ text) {
  const words = text.trim().split(/\s*,\s*|\s+/);
  const isRun = (/** @type {string} */ word, /** @type {number} */ place) => RUN_ID.test(word) && words.indexOf(word) === place;
  return words.flatMap((word, place) => (isRun(word, place) ? [{ id: Number(word), place }] : []));
}

/** @returns {string} the text of a selection, with its free places. */
export function formatSelection(/** @type {Selected[]} */ selected) {
  const ids = [];
  for (const { id, place } of selected) ids[place] = id;
  return Array.from(ids, (id) => id ?? FREE).join(",");
}

/** @returns {Selected[]} without a run that is selected, or else with it at the first free place. */
export function toggled(/** @type {Selected[]} */ selected, /** @type {number} */ id) {
  if (selected.some((run) => run.id === id)) return selected.filter((run) => run.id !== id);
  const taken = new Set(selected.map(({ place }) => place));
  let place = 0;
  while (taken.has(place)) place += 1;
  return [...selected, { id, place }].sort((a, b) => a.place - b.place);
}
