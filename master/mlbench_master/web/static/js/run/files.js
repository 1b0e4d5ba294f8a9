// The section "Files": output files of the ranks, with a preview of pictures, texts and tables.

import { get, query } from "../api.js";
import { byId, h } from "../dom.js";
import { bytes, count, plural } from "../format.js";

const MAX_FILES = 300;
const MAX_ROWS = 500;
// As the API serves them; it has the last word on what a browser makes of a file.
const IMAGE = /\.(png|jpe?g|gif|webp)$/i;
const TEXT = /\.(txt|log|md|jsonl?|tsv|ya?ml)$/i;
const TABLE = /\.csv$/i;

/** @typedef {import("../records.js").RunFile} RunFile */

export class Files {
  #shown = "";

  constructor(/** @type {number} */ runId) {
    this.path = `/api/runs/${runId}/files/`;
  }

  /** Fetch the list, and show it. Files come once the processes of a rank have ended. */
  async refresh() {
    const files = await get(this.path);
    const text = JSON.stringify(files);
    // Without changes, open previews stay open.
    if (text === this.#shown) return;
    this.#shown = text;
    byId("files").hidden = files.length === 0;
    byId("files-list").replaceChildren(...files.slice(0, MAX_FILES).map((file) => this.#row(file)));
    const more = files.length - MAX_FILES;
    byId("files-more").textContent =
      more > 0 ? `${plural(more, "further file")}: “mlbench files” lists all files.` : "";
  }

  #row(/** @type {RunFile} */ file) {
    const facts = h("span", { class: "soft small-text" }, `rank ${file.rank} · ${bytes(file.size)}`);
    if (file.left) return h("li", {}, h("span", { class: "file-name" }, file.name), facts, left(file));
    const url = this.path + addressOf(file);
    const download = h("a", { href: url, download: "", class: "button" }, "Download");
    download.setAttribute("aria-label", `Download ${file.name} of rank ${file.rank}`);
    const name = h("span", { class: "file-name" }, file.name);
    const look = lookOf(file.name);
    if (!look) return h("li", {}, name, facts, download);
    const inside = h("div", { class: "file-look" });
    const show = () => look(url, file.name).then((node) => inside.replaceChildren(node), problem);
    const problem = (error) => inside.replaceChildren(h("p", { class: "problem" }, error.message));
    const details = h("details", {}, h("summary", {}, name, facts), inside);
    details.addEventListener("toggle", () => !inside.firstChild && show());
    return h("li", {}, details, download);
  }
}

/** Return the end of a file's path in the API. */
export function addressOf(/** @type {Pick<RunFile, "name" | "rank" | "attempt">} */ { name, rank, attempt }) {
  const parts = name.split("/").map(encodeURIComponent);
  return `${parts.join("/")}${query({ rank, attempt })}`;
}

function left(/** @type {RunFile} */ file) {
  const digest = file.sha256 && h("span", { class: "file-digest" }, `SHA-256 ${file.sha256}`);
  return h("p", { class: "soft small-text file-left" }, `Not uploaded from ${file.path}: ${file.left}. `, digest);
}

function lookOf(/** @type {string} */ name) {
  if (IMAGE.test(name)) return async (src, alt) => h("img", { src, alt });
  if (TEXT.test(name)) return async (url, label) => scrolling(label, h("pre", {}, await read(url)));
  if (TABLE.test(name)) return async (url, label) => scrolling(label, table(parseCsv(await read(url))));
  return null;
}

/** @returns {Promise<Response>} the answer with a file, or an error. */
export async function open(/** @type {string} */ url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`The master responded with ${answer.status} ${answer.statusText}`);
  return answer;
}

async function read(/** @type {string} */ url) {
  return (await open(url)).text();
}

function scrolling(/** @type {string} */ label, /** @type {HTMLElement} */ content) {
  const about = { class: "scroll", tabindex: "0", role: "group", "aria-label": label };
  return h("div", about, content);
}

function table(/** @type {string[][]} */ [head = [], ...rows]) {
  const cells = (tag, row) => row.map((text) => h(tag, tag === "th" ? { scope: "col" } : {}, text));
  const shown = rows.slice(0, MAX_ROWS).map((row) => h("tr", {}, ...cells("td", row)));
  const more = rows.length - MAX_ROWS;
  const rest = more > 0 && h("caption", {}, `First ${MAX_ROWS} of ${count(rows.length)} rows`);
  return h("table", {}, rest, h("thead", {}, h("tr", {}, ...cells("th", head))), h("tbody", {}, ...shown));
}

/** Return the rows of a CSV file (RFC 4180). */
export function parseCsv(/** @type {string} */ text) {
  const rows = [[""]];
  let isQuoted = false;
  let wasClosed = false;
  for (const letter of text.replaceAll("\r\n", "\n")) {
    const row = rows[rows.length - 1];
    if (letter === '"') {
      // Of two within quotes, the first seems to close them, and the second is text.
      if (wasClosed) row[row.length - 1] += letter;
      isQuoted = !isQuoted;
    } else if (letter === "," && !isQuoted) row.push("");
    else if (letter === "\n" && !isQuoted) rows.push([""]);
    else row[row.length - 1] += letter;
    wasClosed = letter === '"' && !isQuoted;
  }
  return rows.filter((row) => row.length > 1 || row[0]);
}
