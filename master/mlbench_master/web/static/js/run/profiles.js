// The section "Profiles": profiles of ranks, and the form that requests another one.

import { post } from "../api.js";
import { byId, h, onSubmit, setOptions, setText } from "../dom.js";
import { bytes, count, number } from "../format.js";
import { figure, fillTable } from "../ui.js";
import { downloadOf, fillLater, open, titleOf, urlOf } from "./files.js";

const TOOLS = { pytorch: "PyTorch", "py-spy": "py-spy", "": "" };

/** Let the form request a profile; `onAsk` is called when a rank was asked. */
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
  byId("profiles-list").replaceChildren(...profiles.map((profile) => createRow(profile, runId)));
}

function createRow(/** @type {RankProfile} */ profile, /** @type {number} */ runId) {
  const { rank, seconds, tool, size, file, problem } = profile;
  const title = titleOf(`Rank ${rank}`, [`${seconds} s`, TOOLS[tool], size && bytes(size)].filter(Boolean).join(" · "));
  const state = problem || "Profiling…";
  if (!file) return h("li", {}, title, h("p", { class: problem ? "problem" : "soft", role: "status" }, state));
  const url = urlOf(runId, { ...profile, name: file });
  const viewer = h("div", { class: "file-look" });
  const onclick = () => {
    viewer.replaceChildren("Loading…");
    fillLater(viewer, () => speedscope(url, `Profile of rank ${rank}`));
  };
  const button = h("button", { type: "button", onclick }, "Show in speedscope");
  const details = h("details", {}, h("summary", {}, title), operatorsOf(profile), h("p", {}, button), viewer);
  return h("li", {}, details, downloadOf(url, `the profile of rank ${rank}`));
}

// Speedscope tells calls of other arguments apart: it gets the calls of a trace by name alone, and the names of its threads.
async function speedscope(/** @type {string} */ url, /** @type {string} */ title) {
  const { body } = await open(url);
  const profile = await new Response(body.pipeThrough(new DecompressionStream("gzip"))).json();
  profile.traceEvents = profile.traceEvents
    ?.filter(({ ph, cat }) => ph === "M" || (ph === "X" && cat !== "Trace"))
    .map((event) => (event.ph === "M" ? event : { ...event, args: undefined }));
  const profileURL = URL.createObjectURL(new Blob([JSON.stringify(profile)]));
  const hash = String(new URLSearchParams({ profileURL, title })).replaceAll("+", "%20");
  return h("iframe", { class: "speedscope", src: `${byId("profiles").dataset.speedscope}#${hash}`, title });
}

function operatorsOf(/** @type {RankProfile} */ { tool, operators }) {
  const element = /** @type {HTMLTableElement} */ (h("table", {}, h("thead", {}, h("tr")), h("tbody")));
  const seconds = (title, name) => figure(title, (operator) => `${number(operator[name])} s`);
  const columns = [
    { title: tool === "pytorch" ? "Operator" : "Function", isHead: true, make: (operator) => h("code", {}, operator.name) },
    seconds("Self", "self_seconds"),
    seconds("Total", "total_seconds"),
    figure("Calls", (operator) => (operator.calls === null ? "" : count(operator.calls))),
  ];
  fillTable(element, columns, operators, (operator) => operator.name);
  return element;
}
