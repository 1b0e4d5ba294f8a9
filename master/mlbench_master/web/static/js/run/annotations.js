// Annotations of one's own about a run: its tags and note, and the dialog that changes them and its title.

import { patch } from "../api.js";
import { byId, onSubmit, setNotice, setText } from "../dom.js";
import { markdown } from "../markdown.js";

/** @import { Run } from "../records.js" */

const FIELDS = ["title", "tags", "note"];

/** The note, and the dialog that changes it, the title and the tags. */
export class Annotations {
  /** @type {Run | null} */
  #run = null;
  #shown = "";
  #dialog = byId("annotations");
  #form = this.#dialog.querySelector("form");

  /** @param {() => void} onChange called when the words were changed */
  constructor(onChange) {
    this.onChange = onChange;
    byId("edit").addEventListener("click", () => this.#open());
    byId("annotations-cancel").addEventListener("click", () => this.#dialog.close());
    onSubmit(this.#form, () => this.#save());
  }

  show(/** @type {Run} */ run) {
    this.#run = run;
    if (run.note === this.#shown) return;
    this.#shown = run.note;
    byId("note").replaceChildren(...markdown(run.note));
    byId("note").hidden = !run.note.trim();
  }

  #open() {
    const { title, display_name, tags, note } = this.#run;
    const { elements } = this.#form;
    elements.namedItem("title").value = title === display_name ? "" : title;
    elements.namedItem("title").placeholder = display_name;
    elements.namedItem("tags").value = tags.join(" ");
    elements.namedItem("note").value = note;
    this.#say({});
    this.#dialog.showModal();
  }

  async #save() {
    const [title, tags, note] = FIELDS.map((name) => this.#form.elements.namedItem(name).value);
    const words = { title: title.trim(), tags: tags.split(/[\s,]+/).filter(Boolean), note };
    const button = byId("annotations-save");
    button.disabled = true;
    try {
      await patch(`/api/runs/${this.#run.id}/`, words);
      this.#dialog.close();
      this.onChange();
    } catch (error) {
      this.#say(error.fields);
    } finally {
      button.disabled = false;
    }
  }

  // The API's problems by field, such as `tags.3`; others stand above the form.
  #say(/** @type {Record<string, string>} */ problems) {
    const left = { ...problems };
    for (const name of FIELDS) {
      const key = Object.keys(left).find((field) => field.split(".")[0] === name);
      setText(byId(`problem-annotations-${name}`), key ? left[key] : "");
      this.#form.elements.namedItem(name).setAttribute("aria-invalid", String(Boolean(key)));
      delete left[key];
    }
    setNotice(byId("annotations-alert"), Object.values(left).join("; "));
  }
}
