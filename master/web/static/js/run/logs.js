// What the ranks wrote: read from its end, upwards and downwards, followed and searched.

import { get, query } from "../api.js";
import { h, keep, setText } from "../dom.js";
import { LogList } from "./loglist.js";
import { LogSearch } from "./logsearch.js";
import { LogWindow } from "./logwindow.js";

/** @typedef {import("../records.js").Run} Run */

const TAIL_LINES = 1000;
// A reader who follows a log that grows faster than it can be fetched gets its end.
const TOO_FAR_BYTES = 4 << 20;
const TYPING_MS = 300;
// How the other ranks end once one has failed.
const TERMINATED = -15;

/** The section "Logs". */
export class Logs {
  /**
   * @param {Record<string, any>} parts log, empty, rank, stream, attempt, attemptChoice, follow,
   *   download, search, query, next, found
   * @param {number} runId
   * @param {() => void} onChange that another log was chosen, and must be fetched
   */
  constructor(parts, runId, onChange) {
    this.parts = parts;
    this.path = `/api/runs/${runId}/logs/`;
    this.onChange = onChange;
    this.window = new LogWindow();
    this.isOpen = false;
    // One request after the other, so that no piece is fetched twice.
    this.queue = Promise.resolve();
    this.list = new LogList(parts.log, {
      // By the time it is their turn, the reader may be elsewhere.
      onTop: () => this.#quietly(() => this.isOpen && this.list.isNearTop && this.#upwards()),
      onBottom: () => this.#quietly(() => this.isOpen && this.list.isNearBottom && this.#onwards()),
      onScrollUp: () => (parts.follow.checked = false),
    });
    this.#listen();
  }

  /** Fetch what is new of the chosen log. */
  async refresh(/** @type {Run} */ run) {
    this.#offer(run);
    await this.#inOrder(() => (this.isOpen ? this.#grow() : this.#open()));
  }

  #listen() {
    const { parts } = this;
    for (const select of [parts.rank, parts.stream, parts.attempt]) {
      select.addEventListener("change", () => this.#choose());
    }
    parts.follow.addEventListener(
      "change",
      () => parts.follow.checked && this.#quietly(() => this.#toEnd()),
    );
    let typing = 0;
    parts.search.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(typing); // or it would go past the first match at once
      this.#quietly(() => this.#next());
    });
    parts.query.addEventListener("input", () => {
      clearTimeout(typing);
      parts.next.disabled = !parts.query.value;
      typing = setTimeout(() => this.#quietly(() => this.#next()), TYPING_MS);
    });
  }

  #choose() {
    this.isOpen = false;
    this.search = null;
    setText(this.parts.found, "");
    this.onChange();
  }

  // The log that is chosen.
  get #log() {
    const { rank, stream, attempt } = this.parts;
    return { rank: rank.value, stream: stream.value, attempt: attempt.value || null };
  }

  async #open() {
    const log = this.#log;
    this.parts.log.setAttribute("aria-label", `Log of rank ${log.rank}`);
    this.parts.download.href = this.path + query({ ...log, format: "text" });
    const page = await get(this.path, { ...log, tail: TAIL_LINES });
    if (!this.#isStill(log)) return;
    this.#replace(page);
    this.isOpen = true;
    this.list.mark(this.parts.query.value);
    this.#showEmpty();
  }

  #replace(page, before = null) {
    this.window = new LogWindow();
    this.window.append(page);
    if (before) this.window.prepend(before);
    this.list.open(this.window);
    if (!before) this.list.toEnd();
  }

  async #grow() {
    // Who has scrolled away from the end comes back to it by scrolling.
    if (!this.window.isAtEnd && !this.parts.follow.checked) return;
    await this.#downwards();
  }

  async #onwards() {
    if (!this.window.isAtEnd) await this.#downwards();
  }

  async #downwards() {
    const log = this.#log;
    const { window } = this;
    const page = await get(this.path, { ...log, offset: window.end });
    if (!this.#isStill(log)) return;
    const isFollowed = this.parts.follow.checked;
    if (isFollowed && page.size - page.offset > TOO_FAR_BYTES) {
      await this.#toEnd();
      return;
    }
    window.append(page);
    this.#trim(isFollowed ? window.count : null);
    this.list.show();
    this.#showEmpty();
    if (isFollowed) this.list.toEnd();
    if (isFollowed && !window.isAtEnd && page.text) await this.#downwards();
  }

  async #upwards() {
    const log = this.#log;
    const { window } = this;
    if (window.start === 0) return;
    const page = await get(this.path, { ...log, before: window.start });
    if (!this.#isStill(log)) return;
    window.prepend(page);
    this.list.show();
    this.#trim(null);
    this.list.show();
  }

  async #toEnd() {
    if (this.window.isAtEnd) {
      this.list.toEnd();
      return;
    }
    const log = this.#log;
    const page = await get(this.path, { ...log, tail: TAIL_LINES });
    if (this.#isStill(log)) this.#replace(page);
  }

  async #next() {
    const { parts } = this;
    const text = parts.query.value;
    // After a restart it is another attempt's log.
    const isSame = this.search?.text === text && this.#isStill(this.search.log);
    if (!isSame) this.search = text ? new LogSearch(this.path, this.#log, text) : null;
    this.list.mark(text);
    setText(parts.found, text ? "Searching…" : "");
    if (!this.search) return;
    const { search } = this;
    const match = await search.next();
    if (this.search !== search) return;
    setText(parts.found, search.words);
    if (match) await this.#show(match.offset);
  }

  async #show(offset) {
    const log = this.#log;
    const [before, page] = await Promise.all([
      offset ? get(this.path, { ...log, before: offset }) : null,
      get(this.path, { ...log, offset }),
    ]);
    if (!this.#isStill(log)) return;
    this.parts.follow.checked = false;
    this.#replace(page, before ?? { ...page, text: "" });
    this.list.toLine(-this.window.first);
  }

  #trim(end) {
    const { from, to } = end === null ? this.list.sight : { from: end, to: end };
    this.window.trim(from, to);
  }

  #isStill(log) {
    return query(log) === query(this.#log);
  }

  #showEmpty() {
    const { rank, stream } = this.#log;
    const isEmpty = this.window.count === 0;
    this.parts.empty.hidden = !isEmpty;
    setText(this.parts.empty, isEmpty ? `Rank ${rank} has written nothing to ${stream}.` : "");
  }

  #offer(run) {
    const { rank, attempt, attemptChoice, stream } = this.parts;
    const numbers = (count, from) => Array.from({ length: count }, (_, i) => String(i + from));
    const create = (value) => h("option", { value }, value);
    const isFirst = rank.length === 0;
    const isLatest = attempt.length === 0 || attempt.selectedIndex === attempt.length - 1;
    keep(
      rank,
      numbers(run.num_workers, 0),
      (value) => value,
      create,
      () => {},
    );
    keep(
      attempt,
      numbers(run.attempt, 1),
      (value) => value,
      create,
      () => {},
    );
    attemptChoice.hidden = run.attempt < 2;
    // Who reads the latest attempt goes on to the next one.
    if (isLatest && attempt.selectedIndex !== attempt.length - 1) {
      attempt.selectedIndex = attempt.length - 1;
      this.isOpen = false;
    }
    const failed =
      run.ranks.find((one) => one.exit_code && one.exit_code !== TERMINATED) ??
      run.ranks.find((one) => one.exit_code);
    if (isFirst && failed) {
      rank.value = String(failed.rank);
      stream.value = "stderr";
    }
  }

  #inOrder(task) {
    const done = this.queue.then(task);
    this.queue = done.catch(() => {});
    return done;
  }

  // What fails is said where the search says what it found; the next try is the reader's.
  #quietly(task) {
    this.#inOrder(task).catch((error) => setText(this.parts.found, error.message));
  }
}
