// The lines of a log as a terminal shows them.

const MAX_LINE_LENGTH = 4000;
// A longer unfinished line, such as one progress bar over another, is broken here.
const MAX_REST_LENGTH = 64 << 10;
// Escape sequences of terminals: CSI (colours, cursor), OSC (titles), and the two-letter ones.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_])/g;

/**
 * Lines of a log, from the byte `start` to before the byte `end`. An unfinished last line is the
 * `rest`, from `end` to `offset`, and is fetched again with what follows it.
 * @typedef {{ start: number, end: number, offset: number, lines: string[], rest: string }} Piece
 */

/** @returns {Piece} the lines of a page; the last one counts as finished if the page `isWhole`. */
export function pieceOf(/** @type {Pick<LogPage, "text" | "start" | "offset">} */ { text, start, offset }, isWhole = false) {
  const lines = text.split("\n");
  const rest = lines.pop();
  // Invalid bytes came as replacement characters, so that the length of the rest is not known.
  if (rest && (isWhole || rest.length > MAX_REST_LENGTH || rest.includes("\ufffd")))
    return { start, end: offset, offset, lines: [...lines, rest], rest: "" };
  return { start, end: offset - new TextEncoder().encode(rest).length, offset, lines, rest };
}

/** @returns {string} a line as a terminal shows it, cut if it is too long to be read. */
export function shownLine(/** @type {string} */ line) {
  const parts = line.replace(ESCAPES, "").split("\r");
  const text = parts.reduce((shown, part) => part + shown.slice(part.length));
  return text.length <= MAX_LINE_LENGTH ? text : `${text.slice(0, MAX_LINE_LENGTH)}… (${text.length} characters)`;
}

/** @returns {string[]} a line in pieces, of which every second one, from the second on, matches. */
export function matchesIn(/** @type {string} */ line, /** @type {string} */ search) {
  const needle = search.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  return needle ? line.split(new RegExp(`(${needle})`, "i")) : [line];
}
