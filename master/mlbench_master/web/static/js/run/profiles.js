// The section "Profiles": profiles of ranks, and the form that requests another one.

import { get, post } from "../api.js";
import { byId, h, onSubmit, setOptions, setText } from "../dom.js";
import { bytes, count, number } from "../format.js";
import { figure, fillTable } from "../ui.js";
import { addressOf, open } from "./files.js";

/** @import { Run, Schemas } from "../records.js" */
/** @typedef {Schemas["RankProfile"]} Profile */

const TOOLS = { pytorch: "PyTorch", "py-spy": "py-spy", "": "" };

export class Profiles {
  #form = byId("profile-form");
  #shown = "";
  #ranks = "";

  /**
   * @param {number} runId
   * @param {() => void} onAsk called when a rank was asked
   * @param {(profiles: Profile[]) => void} onChange called when there is something new
   */
  constructor(runId, onAsk, onChange) {
    this.run = `/api/runs/${runId}`;
    this.onAsk = onAsk;
    this.onChange = onChange;
    onSubmit(this.#form, () => this.#ask());
  }

  /** Offer to profile the ranks of a run that is running. */
  show(/** @type {Run} */ run) {
    const ranks = run.state === "STARTED" ? run.ranks.map(({ rank }) => String(rank)) : [];
    this.#form.hidden = !ranks.length;
    byId("profiles").hidden = !ranks.length && !byId("profiles-list").childElementCount;
    if (ranks.join() === this.#ranks) return;
    this.#ranks = ranks.join();
    setOptions(byId("profile-rank"), ranks, (rank) => `Rank ${rank}`);
  }

  async refresh() {
    const profiles = await get(`${this.run}/profiles/`);
    const text = JSON.stringify(profiles);
    // Without changes, open profiles stay open.
    if (text === this.#shown) return;
    this.#shown = text;
    if (profiles.length) byId("profiles").hidden = false;
    byId("profiles-list").replaceChildren(...profiles.map((profile) => this.#row(profile)));
    this.onChange(profiles);
  }

  async #ask() {
    const [rank, seconds] = ["profile-rank", "profile-seconds"].map((id) => Number(byId(id).value));
    setText(byId("profile-problem"), "");
    try {
      await post(`${this.run}/profiles/`, { rank, seconds });
      this.onAsk();
    } catch (error) {
      setText(byId("profile-problem"), error.message);
    }
  }

  #row(/** @type {Profile} */ profile) {
    const { rank, seconds, tool, size, file, problem } = profile;
    const about = [`${seconds} s`, TOOLS[tool], size && bytes(size)].filter(Boolean).join(" · ");
    const title = [h("span", { class: "file-name" }, `Rank ${rank}`), h("span", { class: "soft small-text" }, about)];
    const state = problem || "Profiling…";
    if (!file) return h("li", {}, ...title, h("p", { class: problem ? "problem" : "soft", role: "status" }, state));
    const url = `${this.run}/files/${addressOf({ ...profile, name: file })}`;
    const download = h("a", { href: url, download: "", class: "button" }, "Download");
    download.setAttribute("aria-label", `Download the profile of rank ${rank}`);
    const look = h("div", { class: "file-look" });
    const onclick = () => show(profile, url, look);
    const button = h("button", { type: "button", onclick }, "Show in speedscope");
    const inside = [table(profile), h("p", {}, button), look];
    return h("li", {}, h("details", {}, h("summary", {}, ...title), ...inside), download);
  }
}

async function show(/** @type {Profile} */ profile, /** @type {string} */ url, /** @type {HTMLElement} */ look) {
  const title = `Profile of rank ${profile.rank}`;
  look.replaceChildren("Loading…");
  try {
    const hash = new URLSearchParams({ profileURL: await readable(url), title });
    const src = `${byId("profiles").dataset.speedscope}#${String(hash).replaceAll("+", "%20")}`;
    look.replaceChildren(h("iframe", { class: "speedscope", src, title }));
  } catch (error) {
    look.replaceChildren(h("p", { class: "problem" }, error.message));
  }
}

// The URL of a profile for speedscope, which tells calls of other arguments apart: without these.
async function readable(/** @type {string} */ url) {
  const { body } = await open(url);
  const profile = await new Response(body.pipeThrough(new DecompressionStream("gzip"))).json();
  if (profile.traceEvents) profile.traceEvents = withoutArguments(profile.traceEvents);
  return URL.createObjectURL(new Blob([JSON.stringify(profile)]));
}

/** @returns {object[]} the calls of a trace, by name alone, and the names of its threads. */
function withoutArguments(/** @type {any[]} */ events) {
  return events
    .filter(({ ph, cat }) => ph === "M" || (ph === "X" && cat !== "Trace"))
    .map((event) => (event.ph === "M" ? event : { ...event, args: undefined }));
}

function table(/** @type {Profile} */ { tool, operators }) {
  const element = h("table", {}, h("thead", {}, h("tr")), h("tbody"));
  const fillName = (cell, operator) => cell.replaceChildren(h("code", {}, operator.name));
  const seconds = (title, name) => figure(title, (operator) => `${number(operator[name])} s`);
  const columns = [
    { title: tool === "pytorch" ? "Operator" : "Function", isHead: true, fill: fillName },
    seconds("Self", "self_seconds"),
    seconds("Total", "total_seconds"),
    figure("Calls", (operator) => (operator.calls === null ? "" : count(operator.calls))),
  ];
  fillTable(element, columns, operators, (operator) => operator.name);
  return element;
}
