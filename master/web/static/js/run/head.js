// The head of the page: the run's name and state, why it waits or failed, and what can be done.

import { post, remove } from "../api.js";
import { confirm } from "../dialog.js";
import { setText } from "../dom.js";
import { moment } from "../format.js";
import { isActive, setBadge, waitingFor } from "../pieces.js";
import { toOrder } from "./again.js";

/** @typedef {import("../records.js").Run} Run */

/** The head, with its buttons. */
export class Head {
  /**
   * @param {Record<string, any>} parts name, state, actions, stop, again, delete, about,
   *   problem, waiting, reason, usage
   * @param {() => void} onStop that the run is asked to stop
   */
  constructor(parts, onStop) {
    this.parts = parts;
    this.onStop = onStop;
    parts.stop.addEventListener("click", () => this.#try(parts.stop, () => this.#stop()));
    parts.again.addEventListener("click", () => this.#try(parts.again, () => this.#again()));
    parts.delete.addEventListener("click", () => this.#delete());
  }

  /** Show what a run is and how it stands. */
  show(/** @type {Run} */ run, /** @type {string} */ description) {
    this.run = run;
    this.description = description;
    const { parts } = this;
    const active = isActive(run);
    setText(parts.name, run.name);
    document.title = `${run.name} · MLBench`;
    setBadge(parts.state, run.state);
    parts.state.hidden = false;
    parts.actions.hidden = false;
    parts.stop.hidden = !active;
    parts.delete.hidden = active;
    parts.stop.disabled = run.stop_requested;
    setText(parts.stop, run.stop_requested ? "Stopping…" : "Stop");
    setText(parts.about, about(run, description));
    show(parts.waiting, waitingFor(run));
    show(parts.reason, run.reason);
    parts.reason.classList.toggle("bad", run.state === "FAILED");
    parts.reason.setAttribute("aria-label", `Why the run has ended: ${run.state.toLowerCase()}`);
    if (run.started_at) parts.usage.href = usageOf(run);
  }

  async #stop() {
    setText(this.parts.stop, "Stopping…");
    this.show(await post(`/api/runs/${this.run.id}/stop/`), this.description);
    this.onStop();
  }

  async #again() {
    const run = await post("/api/runs/", toOrder(this.run));
    location.assign(`/runs/${run.id}`);
  }

  async #delete() {
    const text =
      `“${this.run.name}” goes, with its logs and what the database keeps of it. ` +
      "Its samples in Prometheus stay until they are too old.";
    if (!(await confirm("Delete this run?", text, "Delete"))) return;
    await this.#try(this.parts.delete, async () => {
      await remove(`/api/runs/${this.run.id}/`);
      location.assign("/runs");
    });
  }

  async #try(button, action) {
    setText(this.parts.problem, "");
    button.disabled = true;
    try {
      await action();
    } catch (error) {
      setText(this.parts.problem, error.message);
      button.disabled = false; // else the page is being left: a second click must not order twice
    }
    this.show(this.run, this.description);
  }
}

function show(element, text) {
  setText(element, text);
  element.hidden = !text;
}

function about(run, description) {
  const workers = `${run.num_workers} ${run.num_workers === 1 ? "worker" : "workers"}`;
  const what = run.benchmark ? `${run.benchmark}. ${description}` : `${run.image}: ${run.command}`;
  return `Run ${run.id} · ${workers} · created ${moment(run.created_at)}\n${what}`;
}

function usageOf(run) {
  const url = new URL("/api/metrics/", location.href);
  url.searchParams.set("since", run.started_at);
  if (run.finished_at) url.searchParams.set("until", run.finished_at);
  return url.pathname + url.search;
}
