// The sections "Files", output files of the ranks with a preview of pictures and texts, and "Profiles", with the
// form that requests another one.

import { post, query } from "../api.js";
import { byId, h, onSubmit, setNotice, setOptions, setText } from "../dom.js";
import { bytes, count, number, plural } from "../format.js";
import { urlOf } from "../root.js";
import { figure, makeTable } from "../ui.js";

const MAX_FILES = 300;
// File types with a preview. The content type of the API determines how a browser treats a file.
const IMAGE = /\.(png|jpe?g|gif|webp)$/i;
const TEXT = /\.(txt|log|md|jsonl?|csv|tsv|ya?ml)$/i;
const TOOLS = { pytorch: "PyTorch", "py-spy": "py-spy", "": "" };

/** Show the files of a run. They come once the processes of a rank have ended. */
export function showFiles(/** @type {RunFile[]} */ files, /** @type {number} */ runId) {
  byId("files").hidden = files.length === 0;
  byId("files-list").replaceChildren(...files.slice(0, MAX_FILES).map((file) => makeFile(file, runId)));
  const more = files.length - MAX_FILES;
  setNotice(byId("files-more"), more > 0 ? `${plural(more, "further file")}: “mlbench files” lists all files.` : "");
}

function makeFile(/** @type {RunFile} */ file, /** @type {number} */ runId) {
  const { name, rank, size, left, path, sha256 } = file;
  const title = titleOf(name, `rank ${rank} · ${bytes(size)}`);
  if (left) {
    const digest = sha256 && h("span", { class: "file-digest" }, `SHA-256 ${sha256}`);
    return h("li", {}, title, h("p", { class: "soft small-text file-left" }, `Not uploaded from ${path}: ${left}. `, digest));
  }
  const address = pathOf(runId, file);
  const download = downloadOf(address, `${name} of rank ${rank}`);
  if (!TEXT.test(name) && !IMAGE.test(name)) return h("li", {}, title, download);
  const preview = async () => {
    if (IMAGE.test(name)) return h("img", { src: urlOf(address), alt: name });
    const text = h("pre", {}, await (await open(address)).text());
    return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name }, text);
  };
  const inside = h("div", { class: "file-look" });
  const details = h("details", {}, h("summary", {}, title), inside);
  details.addEventListener("toggle", () => inside.firstChild || fillLater(inside, preview));
  return h("li", {}, details, download);
}

/** @returns {HTMLElement[]} the name of a file, with facts about it. */
function titleOf(/** @type {string} */ name, /** @type {string} */ facts) {
  return [h("span", { class: "file-name" }, name), h("span", { class: "soft small-text" }, facts)];
}

/** @returns {HTMLElement} a button that saves a file. */
function downloadOf(/** @type {string} */ href, /** @type {string} */ what) {
  return h("a", { href, download: "", class: "button", "aria-label": `Download ${what}` }, "Download");
}

/** @returns {string} the path of a file in the API. */
export function pathOf(/** @type {number} */ runId, /** @type {Pick<RunFile, "name" | "rank" | "attempt">} */ { name, rank, attempt }) {
  const parts = name.split("/").map(encodeURIComponent);
  return `/api/runs/${runId}/files/${parts.join("/")}${query({ rank, attempt })}`;
}

/** @returns {Promise<Response>} the answer with a file, or an error. */
async function open(/** @type {string} */ address) {
  const answer = await fetch(urlOf(address));
  if (!answer.ok) throw new Error(`The master responded with ${answer.status} ${answer.statusText}`);
  return answer;
}

/** Put what `make` returns into an element, or its error. */
function fillLater(/** @type {HTMLElement} */ element, /** @type {() => Promise<Node>} */ make) {
  const fail = (error) => element.replaceChildren(h("p", { class: "problem" }, error.message));
  return make().then((content) => element.replaceChildren(content), fail);
}

/** Let the form request a profile; `onAsk` is called after the request. */
export function connectProfileForm(/** @type {number} */ runId, /** @type {() => void} */ onAsk) {
  onSubmit(byId("profile-form"), async () => {
    const [rank, seconds] = ["profile-rank", "profile-seconds"].map((id) => Number(byId(id).value));
    setText(byId("profile-problem"), "");
    const fail = (error) => setText(byId("profile-problem"), error.message);
    await post(`/api/runs/${runId}/profiles/`, { rank, seconds }).then(onAsk, fail);
  });
}

/** Offer to profile the ranks of a run that is running. */
export function offerProfiles(/** @type {Run} */ run) {
  const ranks = run.state === "STARTED" ? run.ranks.map(({ rank }) => String(rank)) : [];
  byId("profile-form").hidden = !ranks.length;
  byId("profiles").hidden = !ranks.length && !byId("profiles-list").childElementCount;
  setOptions(byId("profile-rank"), ranks, (rank) => `Rank ${rank}`);
}

/** Show the profiles of a run. */
export function showProfiles(/** @type {RankProfile[]} */ profiles, /** @type {number} */ runId) {
  if (profiles.length) byId("profiles").hidden = false;
  byId("profiles-list").replaceChildren(...profiles.map((profile) => makeProfile(profile, runId)));
}

function makeProfile(/** @type {RankProfile} */ profile, /** @type {number} */ runId) {
  const { rank, seconds, tool, size, file, problem } = profile;
  const title = titleOf(`Rank ${rank}`, [`${seconds} s`, TOOLS[tool], size && bytes(size)].filter(Boolean).join(" · "));
  const state = problem || "Profiling…";
  if (!file) return h("li", {}, title, h("p", { class: problem ? "problem" : "soft", role: "status" }, state));
  const address = pathOf(runId, { ...profile, name: file });
  const viewer = h("div", { class: "file-look" });
  const onclick = () => {
    viewer.replaceChildren("Loading…");
    fillLater(viewer, () => speedscope(address, `Profile of rank ${rank}`));
  };
  const button = h("button", { type: "button", onclick }, "Show in speedscope");
  const tables = [profile.lines?.length && linesOf(profile.lines), operatorsOf(profile)];
  const details = h("details", {}, h("summary", {}, title), tables.filter(Boolean), h("p", {}, button), viewer);
  return h("li", {}, details, downloadOf(address, `the profile of rank ${rank}`));
}

// Speedscope tells calls of other arguments apart: it gets the calls of a trace by name alone, and the names of its threads.
async function speedscope(/** @type {string} */ address, /** @type {string} */ title) {
  const { body } = await open(address);
  const profile = await new Response(body.pipeThrough(new DecompressionStream("gzip"))).json();
  profile.traceEvents = profile.traceEvents
    ?.filter(({ ph, cat }) => ph === "M" || (ph === "X" && cat !== "Trace"))
    .map((event) => (event.ph === "M" ? event : { ...event, args: undefined }));
  const profileURL = URL.createObjectURL(new Blob([JSON.stringify(profile)]));
  const hash = String(new URLSearchParams({ profileURL, title })).replaceAll("+", "%20");
  return h("iframe", { class: "speedscope", src: `${byId("profiles").dataset.speedscope}#${hash}`, title });
}

// The lines add up to the profiled time.
function linesOf(/** @type {RankProfile["lines"]} */ lines) {
  const columns = [
    { title: "Line", isHead: true, cell: (line) => h("code", {}, line.name) },
    figure("Time", (line) => `${number(line.seconds)} s`),
    { title: "Mostly", text: (line) => `${line.activity}, ${Math.round((100 * line.activity_seconds) / line.seconds)} %` },
  ];
  return makeTable(columns, [...lines], (line) => line.name);
}

function operatorsOf(/** @type {RankProfile} */ { tool, operators }) {
  const seconds = (title, name) => figure(title, (operator) => `${number(operator[name])} s`);
  const columns = [
    { title: tool === "pytorch" ? "Operator" : "Function", isHead: true, cell: (operator) => h("code", {}, operator.name) },
    seconds("Self", "self_seconds"),
    seconds("Total", "total_seconds"),
    figure("Calls", (operator) => (operator.calls === null ? "" : count(operator.calls))),
  ];
  return makeTable(columns, [...operators], (operator) => operator.name);
}
