// The title, tags and note of a run: the note, and the dialog that changes all three.

import { patch } from "../api.js";
import { byId, onSubmit, setNotice } from "../dom.js";

/** Connect the dialog; `onChange` is called when something was changed. */
export function connectAnnotations(/** @type {() => Run} */ getRun, /** @type {() => void} */ onChange) {
  const dialog = byId("annotations");
  const form = dialog.querySelector("form");
  byId("edit").addEventListener("click", () => {
    const { title, display_name, tags, note } = getRun();
    const values = { title: title === display_name ? "" : title, tags: tags.join(" "), note };
    for (const [name, value] of Object.entries(values)) form.elements.namedItem(name).value = value;
    form.elements.namedItem("title").placeholder = display_name;
    setNotice(byId("annotations-alert"), "");
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
      setNotice(byId("annotations-alert"), error.message);
    }
    byId("annotations-save").disabled = false;
  });
}

let shownNote = "";

/** Show the note of a run, unless it is shown already. */
export function showNote(/** @type {Run} */ { note_html: note }) {
  if (note !== shownNote) byId("note").innerHTML = note; // the master escapes HTML in it
  shownNote = note;
  byId("note").hidden = !note;
}
