// Goes from match to match of a text in a log, as the API finds them.

import { get } from "../api.js";

/** One search in one log. */
export class LogSearch {
  /**
   * @param {string} path of the logs route
   * @param {object} log which one: rank, stream, attempt
   * @param {string} text
   */
  constructor(path, log, text) {
    this.path = path;
    this.log = log;
    this.text = text;
    this.matches = [];
    this.offset = 0;
    this.isComplete = false;
    this.current = -1;
  }

  /**
   * Go on to the next match; after the last one, to the first.
   * @returns {Promise<{ offset: number, text: string } | null>} none where there is none
   */
  async next() {
    const isLast = () => this.current + 1 >= this.matches.length;
    // Where all was looked through before, more may have been written.
    if (isLast()) await this.#more();
    while (isLast() && !this.isComplete) await this.#more();
    if (!this.matches.length) return null;
    this.current = (this.current + 1) % this.matches.length;
    return this.matches[this.current];
  }

  /** @returns {string} which of how many matches this is. */
  get words() {
    if (!this.matches.length) return "No match";
    const all = `${this.matches.length}${this.isComplete ? "" : " or more"}`;
    return `Match ${this.current + 1} of ${all}`;
  }

  async #more() {
    const found = await get(this.path, { ...this.log, search: this.text, offset: this.offset });
    // A line that is still being written is found again by the next request.
    const last = this.matches.at(-1)?.offset ?? -1;
    this.matches.push(...found.matches.filter((match) => match.offset > last));
    this.isComplete = found.complete;
    this.offset = found.offset;
  }
}
