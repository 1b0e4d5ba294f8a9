// The section "Files": output files of the ranks, with a preview of pictures and texts.

import { query } from "../api.js";
import { byId, h, setNotice } from "../dom.js";
import { bytes, plural } from "../format.js";

const MAX_FILES = 300;
// As the API serves them; it has the last word on what a browser makes of a file.
const IMAGE = /\.(png|jpe?g|gif|webp)$/i;
const TEXT = /\.(txt|log|md|jsonl?|csv|tsv|ya?ml)$/i;

/** Show the files of a run. They come once the processes of a rank have ended. */
export function showFiles(/** @type {RunFile[]} */ files, /** @type {number} */ runId) {
  byId("files").hidden = files.length === 0;
  byId("files-list").replaceChildren(...files.slice(0, MAX_FILES).map((file) => createRow(file, runId)));
  const more = files.length - MAX_FILES;
  setNotice(byId("files-more"), more > 0 ? `${plural(more, "further file")}: “mlbench files” lists all files.` : "");
}

function createRow(/** @type {RunFile} */ file, /** @type {number} */ runId) {
  const { name, rank, size, left, path, sha256 } = file;
  const title = titleOf(name, `rank ${rank} · ${bytes(size)}`);
  if (left) {
    const digest = sha256 && h("span", { class: "file-digest" }, `SHA-256 ${sha256}`);
    return h("li", {}, title, h("p", { class: "soft small-text file-left" }, `Not uploaded from ${path}: ${left}. `, digest));
  }
  const url = urlOf(runId, file);
  const download = downloadOf(url, `${name} of rank ${rank}`);
  if (!TEXT.test(name) && !IMAGE.test(name)) return h("li", {}, title, download);
  const preview = async () => {
    if (IMAGE.test(name)) return h("img", { src: url, alt: name });
    const text = h("pre", {}, await (await open(url)).text());
    return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name }, text);
  };
  const inside = h("div", { class: "file-look" });
  const details = h("details", {}, h("summary", {}, title), inside);
  details.addEventListener("toggle", () => inside.firstChild || fillLater(inside, preview));
  return h("li", {}, details, download);
}

/** @returns {HTMLElement[]} the name of a file, with facts about it. */
export function titleOf(/** @type {string} */ name, /** @type {string} */ facts) {
  return [h("span", { class: "file-name" }, name), h("span", { class: "soft small-text" }, facts)];
}

/** @returns {HTMLElement} a button that saves a file. */
export function downloadOf(/** @type {string} */ href, /** @type {string} */ what) {
  return h("a", { href, download: "", class: "button", "aria-label": `Download ${what}` }, "Download");
}

/** @returns {string} the address of a file in the API. */
export function urlOf(/** @type {number} */ runId, /** @type {Pick<RunFile, "name" | "rank" | "attempt">} */ { name, rank, attempt }) {
  const parts = name.split("/").map(encodeURIComponent);
  return `/api/runs/${runId}/files/${parts.join("/")}${query({ rank, attempt })}`;
}

/** @returns {Promise<Response>} the answer with a file, or an error. */
export async function open(/** @type {string} */ url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`The master responded with ${answer.status} ${answer.statusText}`);
  return answer;
}

/** Put what `make` returns into an element, or its error. */
export function fillLater(/** @type {HTMLElement} */ element, /** @type {() => Promise<Node>} */ make) {
  const fail = (error) => element.replaceChildren(h("p", { class: "problem" }, error.message));
  return make().then((content) => element.replaceChildren(content), fail);
}
