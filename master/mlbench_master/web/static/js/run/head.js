// The head of a run's page: its name and state, why it waits or failed, and its buttons.

import { post, query, remove } from "../api.js";
import { byId, setNotice, setText } from "../dom.js";
import { moment, plural } from "../format.js";
import { isActive, originOf, sweptOf, waitingFor } from "../records.js";
import { confirm, menu, setRunBadge } from "../ui.js";

/** @import { Run } from "../records.js" */

const MAX_NAME_LENGTH = 100;
const BACKENDS = ["gloo", "nccl"];

/** The head, with its buttons. */
export class Head {
  #stop = byId("stop");
  #again = byId("again");
  #delete = byId("delete");

  /** @param {() => void} onStop called when the run was asked to stop */
  constructor(onStop) {
    this.onStop = onStop;
    this.#stop.addEventListener("click", () => this.#try(this.#stop, () => this.#stopRun()));
    this.#again.addEventListener("click", () => this.#try(this.#again, () => this.#runAgain()));
    this.#delete.addEventListener("click", () => this.#deleteRun());
    menu(byId("download"), byId("downloads"));
  }

  show(/** @type {Run} */ run, /** @type {string} */ description) {
    this.run = run;
    this.description = description;
    const active = isActive(run);
    const reason = byId("reason");
    document.title = `${run.title} · MLBench`;
    setText(byId("name"), run.title);
    setRunBadge(byId("state"), run);
    byId("state").hidden = byId("actions").hidden = false;
    this.#stop.hidden = !active;
    this.#again.hidden = Boolean(run.launcher);
    this.#stop.disabled = run.stop_requested;
    this.#delete.disabled = run.delete_requested;
    setText(this.#stop, run.stop_requested ? "Stopping…" : "Stop");
    setText(this.#delete, run.delete_requested ? "Deleting…" : "Delete");
    setText(byId("about"), about(run, description));
    showSet(run);
    setNotice(byId("waiting"), waitingFor(run));
    setNotice(reason, run.reason);
    reason.classList.toggle("bad", run.state === "FAILED");
    reason.setAttribute("aria-label", `About the run: ${run.state.toLowerCase()}`);
    const range = { since: run.started_at, until: run.finished_at };
    byId("archive").hidden = run.archive === null;
    byId("usage").hidden = Boolean(run.origin);
    if (run.started_at) byId("usage").href = `/api/metrics/${query(range)}`;
  }

  async #stopRun() {
    setText(this.#stop, "Stopping…");
    this.show(await post(`/api/runs/${this.run.id}/stop/`), this.description);
    this.onStop();
  }

  async #runAgain() {
    const run = await post("/api/runs/", toOrder(this.run, this.#again.dataset.fields.split(" ")));
    location.assign(`/runs/${run.id}`);
  }

  async #deleteRun() {
    const first = isActive(this.run) ? "The run is stopped first. " : "";
    const text =
      `${first}“${this.run.title}” is deleted with its logs, its archive and its samples in the database. ` +
      "Its samples in Prometheus are deleted if Prometheus allows it; otherwise they expire.";
    if (!(await confirm("Delete this run?", text, "Delete"))) return;
    await this.#try(this.#delete, async () => {
      await remove(`/api/runs/${this.run.id}/`);
      location.assign("/runs");
    });
  }

  async #try(button, action) {
    setText(byId("problem"), "");
    button.disabled = true;
    try {
      await action();
    } catch (error) {
      setText(byId("problem"), error.message);
      // Otherwise the page is being left, and a second click must not order another run.
      button.disabled = false;
    }
    this.show(this.run, this.description);
  }
}

function showSet(/** @type {Run} */ run) {
  const [link, swept] = byId("of-set").children;
  byId("of-set").hidden = !run.set_name;
  link.href = `/sets/${encodeURIComponent(run.set_name)}`;
  setText(link, `Set ${run.set_name}`);
  setText(swept, sweptOf(run));
}

function about(/** @type {Run} */ run, description) {
  const own = `${run.image || run.launcher}: ${run.command}`;
  const what = run.benchmark ? `${run.benchmark}. ${description}` : own;
  const several = run.world_size > run.num_workers ? `, ${run.world_size} ranks` : "";
  const workers = plural(run.num_workers, "worker") + several;
  const ordered = run.title !== run.display_name && `submitted as ${run.display_name}`;
  const origin = run.origin ? `imported: ${originOf(run)}, read only` : originOf(run);
  const parts = [`Run ${run.id}`, ordered, workers, `created ${moment(run.created_at)}`, origin];
  return `${parts.filter(Boolean).join(" · ")}\n${what}`;
}

/**
 * @param {Run} run
 * @param {string[]} fields that an order and a run have alike
 * @returns {Record<string, unknown>} the order of the same run under the next name, without
 *   defaults; it waits if a run is active
 */
export function toOrder(run, fields) {
  const order = {
    name: nextName(run.display_name),
    ...Object.fromEntries(fields.map((name) => [name, run[name]])),
    max_restarts: run.max_restarts || null,
    ...(run.benchmark ? orderOfTask(run) : orderOfCommand(run)),
    queue: true,
  };
  const isGiven = (value) => value != null && value !== false && value !== "";
  return Object.fromEntries(Object.entries(order).filter(([, value]) => isGiven(value)));
}

/** @returns {string} `digits-2` after `digits`, and `digits-3` after `digits-2`. */
export function nextName(/** @type {string} */ name) {
  // A longer number is a date or a time.
  const [, stem, number] = /^(.*?)(?:-(\d{1,3}))?$/.exec(name);
  const end = `-${Number(number ?? 1) + 1}`;
  return stem.slice(0, MAX_NAME_LENGTH - end.length).replace(/-+$/, "") + end;
}

function orderOfTask(/** @type {Run} */ run) {
  const { backend, ...args } = run.args;
  if (String(run.seed) === args.seed) delete args.seed;
  if (run.gpu_enabled && args.device === "cuda") delete args.device;
  return { benchmark: run.benchmark, backend, args: Object.keys(args).length ? args : undefined };
}

function orderOfCommand(/** @type {Run} */ run) {
  const { backend, run_all_nodes } = run;
  const isUsual = BACKENDS.includes(backend) && run_all_nodes;
  const custom = { backend: "custom_backend", custom_backend: backend, run_all_nodes };
  return {
    image_name: "custom_image",
    custom_image_name: run.image,
    custom_image_command: run.command,
    working_dir: run.working_dir,
    ...(isUsual ? { backend } : custom),
  };
}
