// The section "Logs": a log is read from its end, upwards and downwards, followed and searched.

import { get, query } from "../api.js";
import { byId, h, onSubmit, reconcile, setNotice, setOptions, setText } from "../dom.js";
import { matchesIn, pieceOf, shownLine } from "./log-lines.js";

/** @import { LogPage, Run, Rank } from "../records.js" */
/** @typedef {import("./log-lines.js").Piece & { element: HTMLElement }} Piece */

const TAIL_LINES = 1000;
// A growing piece gets up to this many lines.
const PIECE_LINES = 1000;
// Pieces far from the reader are forgotten.
const MAX_PIECES = 20;
// Lines have elements only while their block is in sight, so that a million of them do not freeze
// the page. The height of a line is that in the style sheet.
const [BLOCK_LINES, LINE_PX] = [200, 20];
// More is fetched when the reader comes this close to the first or the last line.
const NEAR_PX = 2000;
const TYPING_MS = 300;
// How ranks end that were terminated because another one failed.
const TERMINATED = -15;

export class Logs {
  #log = byId("log");
  #place = byId("log-lines");
  #rank = byId("log-rank");
  #stream = byId("log-stream");
  #attempt = byId("log-attempt");
  #follow = byId("log-follow");
  #query = byId("log-query");
  #found = byId("log-found");
  /** @type {Piece[]} consecutive pieces of the log; none before it is opened */
  #pieces = [];
  #size = 0;
  /** @type {WeakMap<Element, string[]>} the lines of each block */
  #blocks = new WeakMap();
  #search = { text: "", offset: 0, isComplete: false, matches: [], current: -1 };
  // Requests are sent one after the other, so that no piece is fetched twice.
  #queue = Promise.resolve();
  #observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.#fill(target);
      else target.replaceChildren();
    }
  }, { root: this.#log, rootMargin: `${BLOCK_LINES * LINE_PX}px` });

  /**
   * @param {number} runId
   * @param {() => void} onChange called when another log was chosen, and must be fetched
   */
  constructor(runId, onChange) {
    this.path = `/api/runs/${runId}/logs/`;
    for (const select of [this.#rank, this.#stream, this.#attempt]) {
      select.addEventListener("change", () => {
        this.#close();
        onChange();
      });
    }
    this.#follow.addEventListener("change", () => this.#follow.checked && this.#quietly(async () => this.#isAtEnd ? this.#scrollToEnd() : this.#open()));
    this.#log.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    // A log that was hidden could not be scrolled.
    new ResizeObserver(() => this.#follow.checked && this.#scrollToEnd()).observe(this.#log);
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
      if (!this.#pieces.length) await this.#open();
      else if (this.#isAtEnd) await this.#down();
    });
  }

  // The chosen log, as parameters of the API.
  get #chosen() {
    return { rank: this.#rank.value, stream: this.#stream.value, attempt: this.#attempt.value || null };
  }

  get #isAtEnd() {
    return this.#pieces.at(-1)?.offset >= this.#size;
  }

  #close() {
    this.#pieces = [];
    this.#search = { ...this.#search, text: "" };
    setText(this.#found, "");
  }

  /** @returns {Promise<LogPage | null>} a page of the chosen log; null if another one was chosen meanwhile. */
  async #get(/** @type {object} */ params) {
    const pieces = this.#pieces;
    const page = await get(this.path, { ...this.#chosen, ...params });
    if (pieces !== this.#pieces) return null;
    this.#size = page.size;
    return page;
  }

  async #open() {
    const { rank, stream } = this.#chosen;
    this.#log.setAttribute("aria-label", `Log of rank ${rank}`);
    byId("log-download").href = this.path + query({ ...this.#chosen, format: "text" });
    const page = await this.#get({ tail: TAIL_LINES });
    if (!page) return;
    this.#replace([pieceOf(page)]);
    this.#scrollToEnd();
    setNotice(byId("log-empty"), page.size ? "" : `Rank ${rank} wrote nothing to ${stream}.`);
  }

  #replace(/** @type {import("./log-lines.js").Piece[]} */ pieces) {
    this.#pieces = pieces.map((piece) => this.#draw({ ...piece, element: h("div") }));
    this.#place.replaceChildren(...this.#pieces.map(({ element }) => element));
  }

  #scrollToEnd() {
    this.#log.scrollTop = this.#log.scrollHeight;
  }

  async #down() {
    const last = this.#pieces.at(-1);
    const page = last ? await this.#get({ offset: last.end }) : null;
    if (!page) return;
    // A log that is far ahead of its follower is opened again at its end.
    if (this.#follow.checked && page.offset < page.size) return this.#open();
    const piece = pieceOf(page);
    if (last.lines.length + piece.lines.length <= PIECE_LINES) {
      this.#draw(Object.assign(last, piece, { start: last.start, lines: last.lines.concat(piece.lines) }));
    } else {
      this.#draw(Object.assign(last, { rest: "" }));
      this.#pieces.push(this.#draw({ ...piece, element: h("div") }));
      this.#place.append(this.#pieces.at(-1).element);
      if (this.#pieces.length > MAX_PIECES) this.#changeAbove(() => this.#pieces.shift().element.remove());
    }
    if (page.size) setNotice(byId("log-empty"), "");
    if (this.#follow.checked) this.#scrollToEnd();
  }

  async #up() {
    const start = this.#pieces[0]?.start;
    const page = start ? await this.#get({ before: start }) : null;
    if (!page) return;
    const piece = this.#draw({ ...pieceOf(page, true), element: h("div") });
    this.#pieces.unshift(piece);
    this.#changeAbove(() => this.#place.prepend(piece.element));
    if (this.#pieces.length > MAX_PIECES) this.#pieces.pop().element.remove();
  }

  // Change lines above those in sight, which stay where they are.
  #changeAbove(/** @type {() => void} */ change) {
    const fromEnd = this.#log.scrollHeight - this.#log.scrollTop;
    change();
    this.#log.scrollTop = this.#log.scrollHeight - fromEnd;
  }

  #onScroll() {
    const above = () => this.#log.scrollTop;
    const below = () => this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight;
    this.#follow.checked = this.#isAtEnd && below() < 2 * LINE_PX;
    // When it is its turn, the reader may be elsewhere.
    if (above() < NEAR_PX) this.#quietly(async () => above() < NEAR_PX && this.#up());
    if (below() < NEAR_PX) this.#quietly(async () => below() < NEAR_PX && !this.#isAtEnd && this.#down());
  }

  #draw(/** @type {Piece} */ piece) {
    const lines = piece.rest ? [...piece.lines, piece.rest] : piece.lines;
    const starts = Array.from({ length: Math.ceil(lines.length / BLOCK_LINES) }, (_, i) => i * BLOCK_LINES);
    const create = () => {
      const block = h("div");
      this.#observer.observe(block);
      return block;
    };
    reconcile(piece.element, starts, Number, create, (block, start) => {
      this.#blocks.set(block, lines.slice(start, start + BLOCK_LINES));
      block.style.height = `${this.#blocks.get(block).length * LINE_PX}px`;
      if (block.firstChild) this.#fill(block);
    });
    return piece;
  }

  #fill(/** @type {Element} */ block) {
    const lines = this.#blocks.get(block).map((line, i) => ({ i, text: shownLine(line) }));
    reconcile(block, lines, ({ i }) => i, () => h("div", { class: "log-line" }), (element, { text }) => {
      const parts = matchesIn(text, this.#search.text);
      if (parts.length === 1) setText(element, text);
      else element.replaceChildren(...parts.map((part, i) => (i % 2 ? h("mark", {}, part) : part)));
    });
  }

  async #next() {
    const text = this.#query.value;
    if (this.#search.text !== text) {
      this.#search = { text, offset: 0, isComplete: false, matches: [], current: -1 };
      for (const block of this.#place.querySelectorAll(":scope > div > div:not(:empty)")) {
        block.replaceChildren();
        this.#fill(block);
      }
    }
    setText(this.#found, text ? "Searching…" : "");
    if (!text) return;
    const search = this.#search;
    const isLast = () => search.current + 1 >= search.matches.length;
    // Even if all was searched before, more may have been written.
    if (isLast()) await this.#searchOn(search);
    while (isLast() && !search.isComplete) await this.#searchOn(search);
    if (this.#search !== search) return;
    const { length } = search.matches;
    if (!length) return setText(this.#found, "No match");
    search.current = (search.current + 1) % length;
    setText(this.#found, `Match ${search.current + 1} of ${length}${search.isComplete ? "" : " or more"}`);
    await this.#showMatch(search.matches[search.current].offset);
  }

  async #searchOn(search) {
    const { matches, complete, offset } = await get(this.path, { ...this.#chosen, search: search.text, offset: search.offset });
    // A line that is still being written is found again by the next request.
    const last = search.matches.at(-1)?.offset ?? -1;
    search.matches.push(...matches.filter((match) => match.offset > last));
    Object.assign(search, { offset, isComplete: complete });
  }

  async #showMatch(/** @type {number} */ offset) {
    const before = offset ? await this.#get({ before: offset }) : null;
    const page = await this.#get({ offset });
    if (!page) return;
    this.#replace([...(before ? [pieceOf(before, true)] : []), pieceOf(page)]);
    const { element } = this.#pieces.at(-1);
    element.classList.add("is-found");
    this.#log.scrollTo(0, element.offsetTop - this.#log.clientHeight / 3);
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
    const failed = failedRank(run.ranks);
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

/** @returns {Rank | undefined} the rank that failed on its own, else a terminated one. */
export function failedRank(/** @type {Rank[]} */ ranks) {
  const failed = ranks.filter((rank) => rank.exit_code);
  return failed.find((rank) => rank.exit_code !== TERMINATED) ?? failed[0];
}
