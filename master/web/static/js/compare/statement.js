// The verdict at the top of the page.

import { h, keep, setText } from "../dom.js";
import { toVerdict } from "./verdict.js";

/** Whether the runs can be compared, why, and what else is to be known. */
export class Statement {
  /**
   * @param {{ card: HTMLElement, title: HTMLElement, text: HTMLElement, reasons: HTMLElement,
   *   notes: HTMLElement }} parts
   */
  constructor(parts) {
    this.parts = parts;
  }

  /** Show the verdict on a comparison. */
  show(/** @type {object} */ comparison) {
    const verdict = toVerdict(comparison);
    this.parts.card.dataset.answer = verdict.answer;
    setText(this.parts.title, verdict.title);
    setText(this.parts.text, verdict.text);
    fill(this.parts.reasons, verdict.reasons);
    fill(this.parts.notes, verdict.notes);
  }
}

function fill(list, texts) {
  list.hidden = texts.length === 0;
  keep(
    list,
    texts,
    (text) => text,
    (text) => h("li", {}, text),
    () => {},
  );
}
