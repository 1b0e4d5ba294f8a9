// The part of a log that the page holds, and its lines as a terminal shows them.

const CHUNK_LINES = 2000;
const MAX_LINES = 20_000;
const MAX_LENGTH = 16 << 20;
const MAX_LINE_LENGTH = 4000;
// Escape sequences of terminals: CSI (colours, cursor), OSC (titles), and the two-letter ones.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_])/g;
const encoder = new TextEncoder();

/** @typedef {Pick<import("../records.js").LogPage, "text" | "start" | "offset" | "size">} Page */

/** Consecutive lines, from the byte `start` to before the byte `end` of the log. */
export class LogWindow {
  constructor() {
    this.chunks = [];
    this.size = 0;
    /** The number of the first line; lower after lines were prepended, higher after a trim. */
    this.first = 0;
  }

  get start() {
    return this.chunks[0]?.start ?? 0;
  }

  get end() {
    return this.chunks.at(-1)?.end ?? 0;
  }

  /** The number of lines. */
  get count() {
    return this.chunks.reduce((lines, chunk) => lines + chunk.lines.length, 0);
  }

  /** The number of characters. */
  get length() {
    const lengthOf = ({ lines }) => lines.reduce((length, line) => length + line.length + 1, 0);
    return this.chunks.reduce((length, chunk) => length + lengthOf(chunk), 0);
  }

  /** Whether the log has nothing after these lines. */
  get isAtEnd() {
    return this.end >= this.size;
  }

  /** @returns {string} a line as it was written, by its place. */
  line(/** @type {number} */ place) {
    let rest = place;
    for (const { lines } of this.chunks) {
      if (rest < lines.length) return lines[rest];
      rest -= lines.length;
    }
    return "";
  }

  append(/** @type {Page} */ page) {
    this.size = page.size;
    const { text, end } = wholeLines(page);
    if (!text) {
      if (!this.chunks.length) this.chunks.push(chunk(page.start, end, [], false));
      return;
    }
    const last = this.chunks.at(-1);
    const isFull = !last || last.lines.length >= CHUNK_LINES / 2;
    // A full chunk only gets the end of its last line, because whole chunks are dropped.
    const length = isFull ? headLength(last, text, page.start, end) : text.length;
    const head = text.slice(0, length);
    const isWhole = length === text.length;
    const middle = isWhole ? end : page.start + bytesOf(head);
    if (head) grow(last, head, middle);
    if (!isWhole) this.chunks.push(...toChunks(text.slice(length), middle, end));
  }

  prepend(/** @type {Page} */ page) {
    this.size = page.size;
    const chunks = page.text ? toChunks(page.text, page.start, page.offset) : [];
    for (const part of chunks) part.isOpen = false;
    this.first -= chunks.reduce((lines, part) => lines + part.lines.length, 0);
    this.chunks.unshift(...chunks);
  }

  /**
   * Forget lines far from those in sight, as long as there are too many.
   * @param {number} from the place of the first line in sight
   * @param {number} to the place after the last one
   */
  trim(from, to) {
    let before = from;
    let after = this.count - to;
    while (this.chunks.length > 1 && (this.count > MAX_LINES || this.length > MAX_LENGTH)) {
      if (before > after) {
        const gone = this.chunks.shift().lines.length;
        this.first += gone;
        before -= gone;
      } else {
        after -= this.chunks.pop().lines.length;
      }
    }
  }
}

function chunk(start, end, lines, isOpen) {
  return { start, end, lines, isOpen };
}

// A line in which a page breaks off is left to the next page.
function wholeLines({ text, start, offset, size }) {
  const cut = text.lastIndexOf("\n") + 1;
  const rest = text.slice(cut);
  // Invalid bytes came as replacement characters, so that the number of bytes is not known.
  const canCut = offset < size && cut > 0 && rest && bytesOf(text) === offset - start;
  return canCut ? { text: text.slice(0, cut), end: offset - bytesOf(rest) } : { text, end: offset };
}

// The length of the text that belongs to the last line of a full chunk, as far as it is known.
function headLength(last, text, start, end) {
  if (!last?.isOpen) return 0;
  const length = text.indexOf("\n") + 1;
  return length && bytesOf(text) === end - start ? length : text.length;
}

function grow(last, text, end) {
  const [head, ...lines] = text.split("\n");
  if (last.isOpen) last.lines.push(compact(last.lines.pop() + head));
  else last.lines.push(head);
  last.lines.push(...lines);
  last.isOpen = last.lines.at(-1) !== "";
  if (!last.isOpen) last.lines.pop();
  last.end = end;
}

function toChunks(text, start, end) {
  const lines = text.split("\n");
  const isOpen = lines.at(-1) !== "";
  if (!isOpen) lines.pop();
  else lines.push(compact(lines.pop()));
  if (bytesOf(text) !== end - start) return [chunk(start, end, lines, isOpen)];
  const chunks = [];
  let position = start;
  for (let i = 0; i < lines.length; i += CHUNK_LINES) {
    const part = lines.slice(i, i + CHUNK_LINES);
    const isLast = i + CHUNK_LINES >= lines.length;
    const next = isLast ? end : position + bytesOf(part.join("\n")) + 1;
    chunks.push(chunk(position, next, part, isLast && isOpen));
    position = next;
  }
  return chunks;
}

function bytesOf(text) {
  return encoder.encode(text).length;
}

/** @returns {string} a line as a terminal shows it, cut if it is too long to be read. */
export function shownLine(/** @type {string} */ line) {
  const text = overwritten(line.replace(ESCAPES, ""));
  if (text.length <= MAX_LINE_LENGTH) return text;
  return `${text.slice(0, MAX_LINE_LENGTH)}… (${text.length} characters)`;
}

/** @returns {string} a line without overwritten characters, so that a progress bar does not grow. */
export function compact(/** @type {string} */ line) {
  const last = line.lastIndexOf("\r");
  return last < 0 ? line : `${overwritten(line.slice(0, last))}\r${line.slice(last + 1)}`;
}

/** @returns {{ text: string, isMatch: boolean }[]} a line in pieces that match or do not. */
export function highlight(/** @type {string} */ line, /** @type {string} */ search) {
  const wanted = search.toLowerCase();
  const lower = line.toLowerCase();
  // Some letters are longer in lowercase, and places would be wrong.
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
