// Dialogs: the browser's own, which keep the focus inside, close on Escape and give it back.

import { h } from "./dom.js";

/**
 * Ask before something that cannot be undone.
 * @param {string} title such as "Delete this run?"
 * @param {string} text what will happen
 * @param {string} action what the button that does it is called
 * @returns {Promise<boolean>} whether to do it
 */
export function confirm(title, text, action) {
  return new Promise((resolve) => {
    const dialog = h(
      "dialog",
      { "aria-labelledby": "confirm-title", class: "small" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "confirm-title" }, title),
        h("p", {}, text),
        h(
          "div",
          { class: "buttons" },
          h("button", { value: "" }, "Cancel"),
          h("button", { value: "yes", class: "danger" }, action),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
