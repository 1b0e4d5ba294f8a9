// A scrolling list of lines. Only those in sight are in the page, so that a million of them do not
// freeze it.

import { h, reconcile } from "../dom.js";
import { highlight, shownLine } from "./logwindow.js";

// As in the style sheet.
const LINE_PX = 20;
const MARGIN_LINES = 15;
const NEAR_LINES = 200;

/** The lines of a log, in an element that scrolls. */
export class LogList {
  /**
   * @param {HTMLElement} element
   * @param {{ onTop: () => void, onBottom: () => void, onScrollUp: () => void }} listeners called
   *   when the reader comes near an end of the lines, or scrolls up
   */
  constructor(element, listeners) {
    this.element = element;
    this.space = /** @type {HTMLElement} */ (element.firstElementChild);
    this.lines = /** @type {HTMLElement} */ (this.space.firstElementChild);
    this.listeners = listeners;
    this.window = null;
    this.search = "";
    this.found = null;
    this.top = 0;
    this.widest = 0;
    element.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    new ResizeObserver(() => this.window && this.#render()).observe(element);
  }

  /** The lines in sight, by their place. */
  get sight() {
    const from = Math.floor(this.element.scrollTop / LINE_PX);
    return { from, to: from + Math.ceil(this.element.clientHeight / LINE_PX) };
  }

  /** Whether the reader is near the first line. */
  get isNearTop() {
    return this.sight.from < NEAR_LINES;
  }

  /** Whether the reader is near the last line. */
  get isNearBottom() {
    return this.sight.to > this.window.count - NEAR_LINES;
  }

  open(/** @type {import("./logwindow.js").LogWindow} */ window) {
    this.window = window;
    this.first = window.first;
    this.found = null;
    this.widest = 0;
    this.lines.style.minWidth = "";
    this.element.scrollTop = this.top = this.element.scrollLeft = 0;
    this.lines.replaceChildren();
    this.show();
  }

  /** Show the lines of the window; those in sight stay where they are. */
  show() {
    const moved = this.first - this.window.first;
    this.first = this.window.first;
    this.space.style.height = `${this.window.count * LINE_PX}px`;
    if (moved) this.#scrollTo(this.element.scrollTop + moved * LINE_PX);
    this.#render();
  }

  toEnd() {
    this.#scrollTo(this.element.scrollHeight);
    this.#render();
  }

  /** Scroll to a line, by its place, and mark it. */
  toLine(/** @type {number} */ place) {
    this.found = this.window.first + place;
    this.#scrollTo(place * LINE_PX - this.element.clientHeight / 3);
    this.element.scrollLeft = 0;
    this.#render();
  }

  /** Highlight a text in all lines. */
  mark(/** @type {string} */ search) {
    this.search = search;
    if (!search) this.found = null;
    this.#render();
  }

  #scrollTo(top) {
    this.element.scrollTop = top;
    this.top = this.element.scrollTop;
  }

  #onScroll() {
    if (!this.window) return;
    const isUp = this.element.scrollTop < this.top - 1;
    this.top = this.element.scrollTop;
    this.#render();
    if (isUp) this.listeners.onScrollUp();
    if (this.isNearTop) this.listeners.onTop();
    if (this.isNearBottom) this.listeners.onBottom();
  }

  #render() {
    if (!this.window) return;
    const { from, to } = this.sight;
    const first = Math.max(0, from - MARGIN_LINES);
    const last = Math.min(this.window.count, to + MARGIN_LINES);
    const shown = [];
    for (let place = first; place < last; place++) {
      const number = this.window.first + place;
      const text = shownLine(this.window.line(place));
      this.widest = Math.max(this.widest, text.length);
      shown.push({ number, text, isFound: number === this.found });
    }
    this.lines.style.transform = `translateY(${first * LINE_PX}px)`;
    this.lines.style.minWidth = `${this.widest}ch`;
    const create = () => h("div", { class: "log-line" });
    const update = (line, entry) => this.#update(line, entry);
    reconcile(this.lines, shown, (entry) => entry.number, create, update);
  }

  #update(line, { text, isFound }) {
    line.classList.toggle("is-found", isFound);
    const state = `${this.search}\n${text}`;
    if (line.shown === state) return;
    line.shown = state;
    const pieces = highlight(text, this.search).map((piece) =>
      piece.isMatch ? h("mark", {}, piece.text) : piece.text,
    );
    line.replaceChildren(...pieces);
  }
}
