// The section "Logs": a log is read from its end, upwards and downwards, followed and searched.

import { get, query } from "../api.js";
import { byId, h, onSubmit, reconcile, setNotice, setOptions, setText } from "../dom.js";
import { urlOf } from "../root.js";

/**
 * Lines of a log, from the byte `start` to before the byte `end`. An unfinished last line is the
 * `rest`, from `end` to `offset`, and is fetched again with what follows it.
 * @typedef {{ start: number, end: number, offset: number, lines: string[], rest: string }} Piece
 */

const TAIL_LINES = 1000;
// A followed log with more lines is opened again at its end.
const MAX_FOLLOWED_LINES = 20_000;
// The height of a line is that in the style sheet. Lines far out of sight have no elements, so that
// a million lines do not freeze the page.
const [LINE_PX, LINES_AROUND] = [20, 50];
// More is fetched when the reader comes this close to the first or the last line.
const NEAR_PX = 2000;
const TYPING_MS = 300;
const MAX_LINE_LENGTH = 4000;
// A longer unfinished line, such as one progress bar over another, is broken here.
const MAX_REST_LENGTH = 64 << 10;
// Escape sequences of terminals: CSI (colours, cursor), OSC (titles), and the two-letter ones.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_])/g;

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

export class Logs {
  #log = byId("log");
  #place = byId("log-lines");
  #rank = byId("log-rank");
  #stream = byId("log-stream");
  #attempt = byId("log-attempt");
  #follow = byId("log-follow");
  #query = byId("log-query");
  #found = byId("log-found");
  /** @type {Piece | null} the lines fetched so far; null before the log is opened */
  #part = null;
  // Lines are numbered from the first one fetched, and those above it downwards from -1.
  #firstNumber = 0;
  #matchNumber = NaN;
  #size = 0;
  #search = { text: "", offset: 0, isComplete: false, matches: [], current: -1 };
  // Requests are sent one after the other, so that no line is fetched twice.
  #queue = Promise.resolve();

  /** Call `onChange` when another log was chosen, and must be fetched. */
  constructor(/** @type {number} */ runId, /** @type {() => void} */ onChange) {
    this.path = `/api/runs/${runId}/logs/`;
    for (const select of [this.#rank, this.#stream, this.#attempt]) {
      select.addEventListener("change", () => {
        this.#close();
        onChange();
      });
    }
    this.#follow.addEventListener("change", () => {
      if (this.#follow.checked) this.#quietly(async () => (this.#isAtEnd ? this.#scrollToEnd() : this.#open()));
    });
    this.#log.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    // A log that was hidden could not be scrolled.
    new ResizeObserver(() => {
      if (this.#follow.checked) this.#scrollToEnd();
      this.#draw();
    }).observe(this.#log);
    let typing = 0;
    const search = () => {
      clearTimeout(typing); // or the search would skip the first match
      this.#quietly(() => this.#next());
    };
    onSubmit(byId("log-search"), search);
    this.#query.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(search, TYPING_MS);
    });
  }

  /** Fetch new lines of the chosen log. */
  async refresh(/** @type {Run} */ run) {
    this.#offer(run);
    await this.#inOrder(async () => {
      if (!this.#part) await this.#open();
      else if (this.#isAtEnd) await this.#down();
    });
  }

  // The chosen log, as parameters of the API.
  get #chosen() {
    return { rank: this.#rank.value, stream: this.#stream.value, attempt: this.#attempt.value || null };
  }

  get #isAtEnd() {
    return this.#part?.offset >= this.#size;
  }

  #close() {
    this.#part = null;
    this.#search = { ...this.#search, text: "" };
    setText(this.#found, "");
  }

  /** @returns {Promise<LogPage | null>} a page of the chosen log; null if another one was chosen meanwhile. */
  async #get(/** @type {object} */ params) {
    const part = this.#part;
    const chosen = this.#chosen;
    const page = await get(this.path, { ...chosen, ...params });
    if (part !== this.#part || JSON.stringify(chosen) !== JSON.stringify(this.#chosen)) return null;
    this.#size = page.size;
    return page;
  }

  async #open() {
    const { rank } = this.#chosen;
    this.#log.setAttribute("aria-label", `Log of rank ${rank}`);
    byId("log-download").href = urlOf(this.path + query({ ...this.#chosen, format: "text" }));
    const page = await this.#get({ tail: TAIL_LINES });
    if (!page) return;
    this.#matchNumber = NaN;
    this.#show(pieceOf(page), 0);
    this.#scrollToEnd();
  }

  #scrollToEnd() {
    this.#log.scrollTop = this.#log.scrollHeight;
  }

  async #down() {
    const page = await this.#get({ offset: this.#part.end });
    if (!page) return;
    const { start, lines } = this.#part;
    // So is a log that is far ahead of its follower.
    if (this.#follow.checked && (page.offset < page.size || lines.length > MAX_FOLLOWED_LINES)) return this.#open();
    const piece = pieceOf(page);
    this.#show({ ...piece, start, lines: [...lines, ...piece.lines] }, this.#firstNumber);
    if (this.#follow.checked) this.#scrollToEnd();
  }

  async #up() {
    const page = this.#part?.start ? await this.#get({ before: this.#part.start }) : null;
    if (!page) return;
    const { start, lines } = pieceOf(page, true);
    const part = { ...this.#part, start, lines: [...lines, ...this.#part.lines] };
    this.#show(part, this.#firstNumber - lines.length, this.#log.scrollTop + lines.length * LINE_PX);
  }

  #onScroll() {
    this.#draw();
    const above = () => this.#log.scrollTop;
    const below = () => this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight;
    this.#follow.checked = this.#isAtEnd && below() < 2 * LINE_PX;
    // When it is its turn, the reader may be elsewhere.
    if (above() < NEAR_PX) this.#quietly(async () => above() < NEAR_PX && this.#up());
    if (below() < NEAR_PX) this.#quietly(async () => below() < NEAR_PX && !this.#isAtEnd && this.#down());
  }

  #show(/** @type {Piece} */ part, /** @type {number} */ firstNumber, top = this.#log.scrollTop) {
    [this.#part, this.#firstNumber] = [part, firstNumber];
    const { rank, stream } = this.#chosen;
    setNotice(byId("log-empty"), this.#size ? "" : `Rank ${rank} wrote nothing to ${stream}.`);
    this.#place.style.height = `${(part.lines.length + (part.rest ? 1 : 0)) * LINE_PX}px`;
    this.#log.scrollTop = top; // before the lines in sight are drawn
    this.#draw();
  }

  #draw() {
    if (!this.#part) return;
    const { lines, rest } = this.#part;
    const all = rest ? [...lines, rest] : lines;
    const { scrollTop, clientHeight } = this.#log;
    const from = Math.max(0, Math.floor(scrollTop / LINE_PX) - LINES_AROUND);
    const to = Math.ceil((scrollTop + clientHeight) / LINE_PX) + LINES_AROUND;
    this.#place.style.paddingTop = `${from * LINE_PX}px`;
    const shown = all.slice(from, to).map((line, i) => ({ number: this.#firstNumber + from + i, text: shownLine(line) }));
    const keyOf = ({ number, text }) => [number, number === this.#matchNumber, this.#search.text, text].join(" ");
    reconcile(this.#place, shown, keyOf, ({ number, text }) => {
      const parts = matchesIn(text, this.#search.text).map((part, i) => (i % 2 ? h("mark", {}, part) : part));
      return h("div", { class: number === this.#matchNumber ? "log-line is-found" : "log-line" }, parts);
    });
  }

  async #next() {
    const text = this.#query.value;
    if (this.#search.text !== text) {
      this.#search = { text, offset: 0, isComplete: false, matches: [], current: -1 };
      this.#draw();
    }
    setText(this.#found, text ? "Searching…" : "");
    if (!text) return;
    const search = this.#search;
    const { matches } = search;
    const isLast = () => search.current + 1 >= matches.length;
    if (isLast()) search.isComplete = false; // more may have been written
    while (isLast() && !search.isComplete) {
      const page = await get(this.path, { ...this.#chosen, search: text, offset: search.offset });
      if (this.#search !== search) return;
      // A line that is still being written is found again by the next request.
      const last = matches.at(-1)?.offset ?? -1;
      matches.push(...page.matches.filter((match) => match.offset > last));
      Object.assign(search, { offset: page.offset, isComplete: page.complete });
    }
    if (!matches.length) return setText(this.#found, "No match");
    search.current = (search.current + 1) % matches.length;
    setText(this.#found, `Match ${search.current + 1} of ${matches.length}${search.isComplete ? "" : " or more"}`);
    await this.#showMatch(matches[search.current].offset);
  }

  async #showMatch(/** @type {number} */ offset) {
    const before = offset ? await this.#get({ before: offset }) : null;
    const page = await this.#get({ offset });
    if (!page) return;
    const above = before ? pieceOf(before, true).lines : [];
    const piece = pieceOf(page);
    this.#matchNumber = 0;
    const part = { ...piece, start: before?.start ?? offset, lines: [...above, ...piece.lines] };
    this.#show(part, -above.length, above.length * LINE_PX - this.#log.clientHeight / 3);
  }

  #offer(/** @type {Run} */ run) {
    const [rank, attempt] = [this.#rank, this.#attempt];
    const numbers = (count, from) => Array.from({ length: count }, (_, i) => String(i + from));
    const isFirst = rank.length === 0;
    const isLatest = attempt.selectedIndex === attempt.length - 1;
    // All processes of a worker share the log of the first process.
    const processes = new Map(run.ranks.map((worker) => [String(worker.processes[0]), worker.processes.join(", ")]));
    setOptions(rank, processes.size ? [...processes.keys()] : numbers(run.num_workers, 0), (first) => processes.get(first) ?? first);
    setOptions(attempt, numbers(run.attempt, 1));
    byId("log-attempt-choice").hidden = run.attempt < 2;
    // A reader of the latest attempt follows to the next one.
    if (isLatest && attempt.selectedIndex !== attempt.length - 1) {
      attempt.selectedIndex = attempt.length - 1;
      this.#close();
    }
    // Others were stopped because it failed.
    const failed = run.ranks.find(({ exit_code, stopped }) => exit_code && !stopped);
    if (isFirst && failed) {
      rank.value = String(failed.processes[0]);
      this.#stream.value = "stderr";
    }
  }

  #inOrder(task) {
    const done = this.#queue.then(task);
    this.#queue = done.catch(() => {});
    return done;
  }

  // Errors are shown in place of the search's result; the reader tries again.
  #quietly(task) {
    this.#inOrder(task).catch((error) => setText(this.#found, error.message));
  }
}
