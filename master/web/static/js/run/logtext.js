// What a terminal would show of a log: carriage returns overwrite, colours are left out. Pure.

// Escape sequences of terminals: CSI (colours, cursor), OSC (titles), and the two-letter ones.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_])/g;
const LONGEST = 4000;

/** @returns {string} a line as a terminal shows it, cut where it is too long to be read. */
export function shownLine(/** @type {string} */ line) {
  const text = overwritten(line.replace(ESCAPES, ""));
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}… (${text.length} characters)` : text;
}

/**
 * @returns {string} a line that is still being written, without what was overwritten, so that a
 *   progress bar does not grow for ever.
 */
export function compact(/** @type {string} */ line) {
  const last = line.lastIndexOf("\r");
  return last < 0 ? line : `${overwritten(line.slice(0, last))}\r${line.slice(last + 1)}`;
}

/** @returns {{ text: string, isMatch: boolean }[]} a line in pieces: what matches, and what not. */
export function marked(/** @type {string} */ line, /** @type {string} */ search) {
  const wanted = search.toLowerCase();
  const lower = line.toLowerCase();
  // A few letters are longer in lowercase; then places would be wrong.
  if (!wanted || lower.length !== line.length) return [{ text: line, isMatch: false }];
  const pieces = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    if (at > from) pieces.push({ text: line.slice(from, at), isMatch: false });
    from = at + wanted.length;
    pieces.push({ text: line.slice(at, from), isMatch: true });
  }
  if (from < line.length) pieces.push({ text: line.slice(from), isMatch: false });
  return pieces;
}

function overwritten(line) {
  if (!line.includes("\r")) return line;
  return line.split("\r").reduce((shown, part) => part + shown.slice(part.length), "");
}
