// The section "Logs": read from the end, upwards and downwards, followed and searched.

import { get, query } from "../api.js";
import { byId, onSubmit, setNotice, setOptions, setText } from "../dom.js";
import { LogList } from "./loglist.js";
import { LogWindow } from "./logwindow.js";

/** @import { Run, Rank } from "../records.js" */

const TAIL_LINES = 1000;
// If a followed log is ahead by more than this, the page jumps to its end.
const TOO_FAR_BYTES = 4 << 20;
const TYPING_MS = 300;
// How ranks end that were terminated because another one failed.
const TERMINATED = -15;

export class Logs {
  #rank = byId("log-rank");
  #stream = byId("log-stream");
  #attempt = byId("log-attempt");
  #follow = byId("log-follow");
  #query = byId("log-query");
  #found = byId("log-found");
  #window = new LogWindow();
  #isOpen = false;
  /** @type {LogSearch | null} */
  #search = null;
  // Requests are sent one after the other, so that no piece is fetched twice.
  #queue = Promise.resolve();

  /**
   * @param {number} runId
   * @param {() => void} onChange called when another log was chosen, and must be fetched
   */
  constructor(runId, onChange) {
    this.path = `/api/runs/${runId}/logs/`;
    this.onChange = onChange;
    this.list = new LogList(byId("log"), {
      onTop: () => this.#quietly(() => this.#upwards()),
      onBottom: () => this.#quietly(() => this.#onwards()),
      onScrollUp: () => (this.#follow.checked = false),
    });
    this.#listen();
  }

  /** Fetch new lines of the chosen log. */
  async refresh(/** @type {Run} */ run) {
    this.#offer(run);
    await this.#inOrder(() => (this.#isOpen ? this.#grow() : this.#open()));
  }

  #listen() {
    for (const select of [this.#rank, this.#stream, this.#attempt]) {
      select.addEventListener("change", () => this.#choose());
    }
    this.#follow.addEventListener(
      "change",
      () => this.#follow.checked && this.#quietly(() => this.#toEnd()),
    );
    let typing = 0;
    onSubmit(byId("log-search"), () => {
      clearTimeout(typing); // or the search would skip the first match
      this.#quietly(() => this.#next());
    });
    this.#query.addEventListener("input", () => {
      clearTimeout(typing);
      byId("log-next").disabled = !this.#query.value;
      typing = setTimeout(() => this.#quietly(() => this.#next()), TYPING_MS);
    });
  }

  #choose() {
    this.#isOpen = false;
    this.#search = null;
    setText(this.#found, "");
    this.onChange();
  }

  // The chosen log, as parameters of the API.
  get #log() {
    return {
      rank: this.#rank.value,
      stream: this.#stream.value,
      attempt: this.#attempt.value || null,
    };
  }

  #isStill(log) {
    return query(log) === query(this.#log);
  }

  async #open() {
    const log = this.#log;
    byId("log").setAttribute("aria-label", `Log of rank ${log.rank}`);
    byId("log-download").href = this.path + query({ ...log, format: "text" });
    const page = await get(this.path, { ...log, tail: TAIL_LINES });
    if (!this.#isStill(log)) return;
    this.#replace(page);
    this.#isOpen = true;
    this.list.mark(this.#query.value);
    this.#showEmpty();
  }

  #replace(page, before = null) {
    this.#window = new LogWindow();
    this.#window.append(page);
    if (before) this.#window.prepend(before);
    this.list.open(this.#window);
    if (!before) this.list.toEnd();
  }

  async #grow() {
    // A reader who scrolled away from the end comes back to it by scrolling.
    if (this.#window.isAtEnd || this.#follow.checked) await this.#downwards();
  }

  // When it is its turn, the reader may be elsewhere.
  async #onwards() {
    const isWanted = this.#isOpen && this.list.isNearBottom && !this.#window.isAtEnd;
    if (isWanted) await this.#downwards();
  }

  async #downwards() {
    const log = this.#log;
    const window = this.#window;
    const page = await get(this.path, { ...log, offset: window.end });
    if (!this.#isStill(log)) return;
    const isFollowed = this.#follow.checked;
    if (isFollowed && page.size - page.offset > TOO_FAR_BYTES) return this.#toEnd();
    window.append(page);
    this.#trim(isFollowed ? window.count : null);
    this.list.show();
    this.#showEmpty();
    if (isFollowed) this.list.toEnd();
    if (isFollowed && !window.isAtEnd && page.text) await this.#downwards();
  }

  async #upwards() {
    const log = this.#log;
    const window = this.#window;
    if (!this.#isOpen || !this.list.isNearTop || window.start === 0) return;
    const page = await get(this.path, { ...log, before: window.start });
    if (!this.#isStill(log)) return;
    window.prepend(page);
    this.list.show();
    this.#trim(null);
    this.list.show();
  }

  async #toEnd() {
    if (this.#window.isAtEnd) return this.list.toEnd();
    const log = this.#log;
    const page = await get(this.path, { ...log, tail: TAIL_LINES });
    if (this.#isStill(log)) this.#replace(page);
  }

  async #next() {
    const text = this.#query.value;
    // After a restart it is another attempt's log.
    const isSame = this.#search?.text === text && this.#isStill(this.#search.log);
    if (!isSame) this.#search = text ? new LogSearch(this.path, this.#log, text) : null;
    this.list.mark(text);
    setText(this.#found, text ? "Searching…" : "");
    const search = this.#search;
    if (!search) return;
    const match = await search.next();
    if (this.#search !== search) return;
    setText(this.#found, search.words);
    if (match) await this.#show(match.offset);
  }

  async #show(offset) {
    const log = this.#log;
    const [before, page] = await Promise.all([
      offset ? get(this.path, { ...log, before: offset }) : null,
      get(this.path, { ...log, offset }),
    ]);
    if (!this.#isStill(log)) return;
    this.#follow.checked = false;
    this.#replace(page, before ?? { ...page, text: "" });
    this.list.toLine(-this.#window.first);
  }

  #trim(end) {
    const { from, to } = end === null ? this.list.sight : { from: end, to: end };
    this.#window.trim(from, to);
  }

  #showEmpty() {
    const { rank, stream } = this.#log;
    const isEmpty = this.#window.count === 0;
    setNotice(byId("log-empty"), isEmpty ? `Rank ${rank} wrote nothing to ${stream}.` : "");
  }

  #offer(/** @type {Run} */ run) {
    const [rank, attempt] = [this.#rank, this.#attempt];
    const numbers = (count, from) => Array.from({ length: count }, (_, i) => String(i + from));
    const isFirst = rank.length === 0;
    const isLatest = attempt.length === 0 || attempt.selectedIndex === attempt.length - 1;
    // All processes of a worker share the log of the first process.
    const its = new Map(run.ranks.map(({ processes }) => [String(processes[0]), processes]));
    const values = its.size ? [...its.keys()] : numbers(run.num_workers, 0);
    setOptions(rank, values, (first) => its.get(first)?.join(", ") ?? first);
    setOptions(attempt, numbers(run.attempt, 1));
    byId("log-attempt-choice").hidden = run.attempt < 2;
    // A reader of the latest attempt follows to the next one.
    if (isLatest && attempt.selectedIndex !== attempt.length - 1) {
      attempt.selectedIndex = attempt.length - 1;
      this.#isOpen = false;
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

/** The matches of a text in a log, as the API finds them. */
class LogSearch {
  #matches = [];
  #offset = 0;
  #isComplete = false;
  #current = -1;

  /**
   * @param {string} path of the logs route
   * @param {object} log rank, stream and attempt
   * @param {string} text
   */
  constructor(path, log, text) {
    this.path = path;
    this.log = log;
    this.text = text;
  }

  /** @returns {Promise<{ offset: number } | null>} the next match; the first after the last one. */
  async next() {
    const isLast = () => this.#current + 1 >= this.#matches.length;
    // Even if all was searched before, more may have been written.
    if (isLast()) await this.#more();
    while (isLast() && !this.#isComplete) await this.#more();
    if (!this.#matches.length) return null;
    this.#current = (this.#current + 1) % this.#matches.length;
    return this.#matches[this.#current];
  }

  /** @returns {string} such as `Match 2 of 5`. */
  get words() {
    if (!this.#matches.length) return "No match";
    const all = `${this.#matches.length}${this.#isComplete ? "" : " or more"}`;
    return `Match ${this.#current + 1} of ${all}`;
  }

  async #more() {
    const answer = await get(this.path, { ...this.log, search: this.text, offset: this.#offset });
    // A line that is still being written is found again by the next request.
    const last = this.#matches.at(-1)?.offset ?? -1;
    this.#matches.push(...answer.matches.filter((match) => match.offset > last));
    this.#isComplete = answer.complete;
    this.#offset = answer.offset;
  }
}
