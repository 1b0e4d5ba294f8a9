// The part of a log that is held: lines in chunks that know which bytes they stand for. Pure.

import { compact } from "./logtext.js";

const CHUNK_LINES = 2000;
const MOST_LINES = 20_000;
const MOST_LENGTH = 16 << 20;
const encoder = new TextEncoder();

/**
 * An answer of the logs route.
 * @typedef {{ text: string, start: number, offset: number, size: number, complete: boolean }} Page
 */

/** Lines that follow each other, from the byte `start` to before the byte `end` of the log. */
export class LogWindow {
  constructor() {
    this.chunks = [];
    this.size = 0;
    /** The number of the first line held: falls as lines are put before, grows as they go. */
    this.first = 0;
  }

  get start() {
    return this.chunks[0]?.start ?? 0;
  }

  get end() {
    return this.chunks.at(-1)?.end ?? 0;
  }

  /** How many lines are held. */
  get count() {
    return this.chunks.reduce((lines, chunk) => lines + chunk.lines.length, 0);
  }

  /** How many characters are held: a line may stand for many bytes that were left out. */
  get length() {
    const lengthOf = ({ lines }) => lines.reduce((length, line) => length + line.length + 1, 0);
    return this.chunks.reduce((length, chunk) => length + lengthOf(chunk), 0);
  }

  /** Whether nothing is after what is held. */
  get isAtEnd() {
    return this.end >= this.size;
  }

  /** @returns {string} a held line as it was written, by its place among those held. */
  line(/** @type {number} */ place) {
    let rest = place;
    for (const { lines } of this.chunks) {
      if (rest < lines.length) return lines[rest];
      rest -= lines.length;
    }
    return "";
  }

  /** Add what comes after. */
  append(/** @type {Page} */ page) {
    this.size = page.size;
    const { text, end } = wholeLines(page);
    if (!text) {
      if (!this.chunks.length) this.chunks.push(chunk(page.start, end, [], false));
      return;
    }
    const last = this.chunks.at(-1);
    const isFull = !last || last.lines.length >= CHUNK_LINES / 2;
    // A full chunk only gets the end of its last line: what can be forgotten are whole chunks.
    const length = isFull ? headLength(last, text, page.start, end) : text.length;
    const head = text.slice(0, length);
    const isWhole = length === text.length;
    const middle = isWhole ? end : page.start + bytesOf(head);
    if (head) grow(last, head, middle);
    if (!isWhole) this.chunks.push(...toChunks(text.slice(length), middle, end));
  }

  /** Add what comes before. */
  prepend(/** @type {Page} */ page) {
    this.size = page.size;
    const found = page.text ? toChunks(page.text, page.start, page.offset) : [];
    for (const one of found) one.isOpen = false;
    this.first -= found.reduce((lines, one) => lines + one.lines.length, 0);
    this.chunks.unshift(...found);
  }

  /**
   * Forget lines that are far from those that are read, as long as too many are held.
   * @param {number} from the first line that is read, by its place
   * @param {number} to the one after the last
   */
  trim(from, to) {
    let before = from;
    let after = this.count - to;
    while (this.chunks.length > 1 && (this.count > MOST_LINES || this.length > MOST_LENGTH)) {
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

// Where more follows, the line that a page breaks off in is left to the next page.
function wholeLines({ text, start, offset, size }) {
  const cut = text.lastIndexOf("\n") + 1;
  const rest = text.slice(cut);
  // Bytes that are no text came as other ones: how many they were is not known.
  const canCut = offset < size && cut > 0 && rest && bytesOf(text) === offset - start;
  return canCut ? { text: text.slice(0, cut), end: offset - bytesOf(rest) } : { text, end: offset };
}

// How much of a text belongs to the line that a full chunk ends in, as far as that can be told.
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
