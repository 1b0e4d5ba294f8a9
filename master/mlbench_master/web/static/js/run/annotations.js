// The title, tags and note of a run: the note, and the dialog that changes all three.

import { patch } from "../api.js";
import { byId, onSubmit, setNotice, setText } from "../dom.js";
import { markdown } from "../markdown.js";

/** @import { Run } from "../records.js" */

const FIELDS = ["title", "tags", "note"];

/** Connect the dialog; `onChange` is called when something was changed. */
export function connectAnnotations(/** @type {() => Run} */ getRun, /** @type {() => void} */ onChange) {
  const dialog = byId("annotations");
  const form = dialog.querySelector("form");
  byId("edit").addEventListener("click", () => {
    const { title, display_name, tags, note } = getRun();
    const values = { title: title === display_name ? "" : title, tags: tags.join(" "), note };
    for (const name of FIELDS) form.elements.namedItem(name).value = values[name];
    form.elements.namedItem("title").placeholder = display_name;
    showProblems(form, {});
    dialog.showModal();
  });
  byId("annotations-cancel").addEventListener("click", () => dialog.close());
  onSubmit(form, async () => {
    const { title, tags, note } = Object.fromEntries(new FormData(form));
    const words = { title: String(title).trim(), tags: String(tags).split(/[\s,]+/).filter(Boolean), note };
    byId("annotations-save").disabled = true;
    try {
      await patch(`/api/runs/${getRun().id}/`, words);
      dialog.close();
      onChange();
    } catch (error) {
      showProblems(form, error.fields);
    }
    byId("annotations-save").disabled = false;
  });
}

// The API's problems by field, such as `tags.3`; others stand above the form.
function showProblems(form, /** @type {Record<string, string>} */ problems) {
  const left = { ...problems };
  for (const name of FIELDS) {
    const key = Object.keys(left).find((field) => field.split(".")[0] === name);
    setText(byId(`problem-annotations-${name}`), key ? left[key] : "");
    form.elements.namedItem(name).setAttribute("aria-invalid", String(Boolean(key)));
    delete left[key];
  }
  setNotice(byId("annotations-alert"), Object.values(left).join("; "));
}

let shownNote = "";

/** Show the note of a run, unless it is shown already. */
export function showNote(/** @type {Run} */ { note }) {
  if (note === shownNote) return;
  shownNote = note;
  byId("note").replaceChildren(...markdown(note));
  byId("note").hidden = !note.trim();
}
