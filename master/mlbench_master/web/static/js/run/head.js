// The head of a run's page: its name, outcome, settings, note and buttons.

import { now, patch, post, query, remove } from "../api.js";
import { byId, draw, h, onSubmit, setNotice, setText } from "../dom.js";
import { day, duration, moment, plural } from "../format.js";
import { codeOf, elapsedSeconds, isActive, originOf, outcomeOf, waitingFor } from "../records.js";
import { urlOf } from "../root.js";
import { confirm, menu, setBadge } from "../ui.js";
import { failureOf } from "./events.js";

/** @typedef {{ name: string, value: string | number, hint?: string, href?: string, isTag?: boolean }} Fact */

const MAX_NAME_LENGTH = 100;
// Settings that the head shows, with short names.
const SETTINGS = { learning_rate: "lr", batch_size: "batch", exchange: "exchange", optimizer: "optimizer", precision: "precision" };
const USUAL_SETTINGS = { exchange: "ddp", precision: "fp32" };
const COMMIT_LENGTH = 7;
const MAX_OWN_SETTINGS = 4;

/** Connect the buttons: `onChange` is called when the run was changed, `onDiagnosis` when stacks of its ranks were requested. */
export function connectHead(/** @type {() => Run} */ getRun, /** @type {() => void} */ onChange, /** @type {() => void} */ onDiagnosis) {
  connectAnnotations(getRun, onChange);
  listen("stop", async () => {
    await post(`/api/runs/${getRun().id}/stop/`);
    onChange();
    return true;
  });
  listen("ask", async () => {
    await post(`/api/runs/${getRun().id}/diagnosis/`);
    onDiagnosis();
    return false;
  });
  listen("again", async () => {
    const run = await post("/api/runs/", toOrder(getRun(), byId("again").dataset.fields.split(" ")));
    location.assign(urlOf(`/runs/${run.id}`));
    return true;
  });
  listen("delete", async () => {
    const { id, title, state } = getRun();
    const text =
      `${isActive({ state }) ? "The run is stopped first. " : ""}“${title}” is deleted with its logs, its archive and its ` +
      "samples in the database. Its samples in Prometheus are deleted if Prometheus allows it; otherwise they expire.";
    if (!(await confirm("Delete this run?", text, "Delete"))) return false;
    await remove(`/api/runs/${id}/`);
    location.assign(urlOf("/runs"));
    return true;
  });
  menu(byId("download"), byId("downloads"));
  menu(byId("more"), byId("more-actions"));
  // A dialog gives the focus back to an element that is still shown.
  for (const id of ["edit", "delete"]) byId(id).addEventListener("click", () => byId("more").focus(), true);
}

// Call `act` when a button is clicked. It returns whether the button stays disabled, as while the page is
// being left: a second click must not order another run.
function listen(/** @type {string} */ id, /** @type {() => Promise<boolean>} */ act) {
  const button = byId(id);
  const fail = (/** @type {Error} */ { message }) => {
    setText(byId("problem"), message);
    return false;
  };
  button.addEventListener("click", async () => {
    setText(byId("problem"), "");
    button.disabled = true;
    button.disabled = await act().catch(fail);
  });
}

// Connect the dialog for the title, tags and note.
function connectAnnotations(/** @type {() => Run} */ getRun, /** @type {() => void} */ onChange) {
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

/** Show a run, with the commit of its code. */
export function showHead(/** @type {Run} */ run, /** @type {Result | null} */ result, /** @type {string} */ commit) {
  const active = isActive(run);
  document.title = `${run.title} · MLBench`;
  setText(byId("name"), run.title);
  setBadge(byId("state"), ...outcomeOf(run, active ? result?.last_value : result?.best_value));
  byId("state").hidden = byId("actions").hidden = false;
  byId("stop").hidden = !active;
  byId("ask").hidden = run.state !== "STARTED" || !run.ranks.length;
  byId("again").hidden = Boolean(run.launcher);
  byId("stop").disabled = run.stop_requested;
  byId("delete").disabled = run.delete_requested;
  setText(byId("stop"), run.stop_requested ? "Stopping…" : "Stop");
  setText(byId("delete"), run.delete_requested ? "Deleting…" : "Delete");
  const facts = factsOf(run, result, commit, now());
  draw(byId("facts"), facts, ({ name, value }) => `${name} ${value}`, ({ name, value, hint, href, isTag }) => {
    const text = h("bdi", {}, value);
    return h("li", { title: hint, class: isTag && "tag" }, name && [h("b", {}, name), " "], href ? h("a", { href }, text) : text);
  });
  if (run.note_html !== shownNote) byId("note").innerHTML = run.note_html; // the master escapes HTML in it
  shownNote = run.note_html;
  byId("note").hidden = !shownNote;
  setNotice(byId("waiting"), waitingFor(run));
  setNotice(byId("reason"), failureOf(run) ? "" : run.reason);
  byId("archive").hidden = run.archive === null;
  byId("usage").hidden = Boolean(run.origin);
  if (run.started_at) byId("usage").href = urlOf(`/api/metrics/${query({ since: run.started_at, until: run.finished_at })}`);
}

/** @returns {Fact[]} the settings and circumstances that tell a run from others, most important first. */
export function factsOf(/** @type {Run} */ run, /** @type {Result} */ result, /** @type {string} */ commit, /** @type {number} */ now) {
  const { settings, swept } = run;
  const own = Object.entries(SETTINGS).filter(([name]) => !(name in swept) && settings?.[name] != null);
  const chosen = own.filter(([name]) => String(settings[name]) !== USUAL_SETTINGS[name]);
  // The user's own code names its settings as it likes.
  const isOwn = ([name, value]) => !run.benchmark && !(name in SETTINGS) && !(name in swept) && typeof value !== "object";
  const others = Object.entries(settings ?? {}).filter(isOwn).slice(0, MAX_OWN_SETTINGS);
  const seconds = elapsedSeconds(run, now);
  const ranks = run.world_size > run.num_workers ? ` (${run.world_size} ranks)` : "";
  const rules = result?.rule_violations ?? [];
  const when = day(run.created_at) + (seconds === null ? "" : ` · ${duration(seconds)}`);
  return [
    { name: "", value: codeOf(run), hint: run.command || run.benchmark },
    ...Object.entries(swept).map(([name, value]) => ({ name: SETTINGS[name] ?? name, value: String(value) })),
    ...chosen.map(([name, short]) => ({ name: short, value: String(settings[name]), hint: name })),
    ...others.map(([name, value]) => ({ name, value: String(value) })),
    { name: "workers", value: run.num_workers + ranks },
    { name: "seed", value: String(run.seed ?? "") },
    { name: "bandwidth", value: run.max_bandwidth && !("bandwidth" in swept) ? `${run.max_bandwidth} Mbit/s` : "" },
    { name: "faults", value: run.faults ?? "", hint: "Planned faults" },
    { name: "attempt", value: run.attempt > 1 ? `${run.attempt} of ${run.max_restarts + 1}` : "" },
    { name: "commit", value: commit.slice(0, COMMIT_LENGTH), hint: commit },
    { name: "rules", value: rules.length && plural(rules.length, "violation"), href: "?tab=record#remarks", hint: rules.join("; ") },
    { name: "", value: when, hint: `created ${moment(run.created_at)}` },
    { name: "", value: run.title === run.display_name ? "" : `submitted as ${run.display_name}` },
    { name: "", value: run.origin ? `imported: ${originOf(run)}, read only` : originOf(run) },
    { name: "user", value: run.user, href: `/runs${query({ query: `user="${run.user.replaceAll('"', '""')}"` })}` },
    { name: "set", value: run.set_name ?? "", href: `/sets/${encodeURIComponent(run.set_name ?? "")}` },
    ...run.tags.map((tag) => ({ name: "", value: tag, href: `/runs${query({ query: `tag:${tag}` })}`, isTag: true })),
  ].filter(({ value }) => value);
}

/**
 * Make an order of the same run under the next name, without defaults; it waits if a run is active.
 * An order and a run have `fields` alike.
 */
export function toOrder(/** @type {Run} */ run, /** @type {string[]} */ fields) {
  const { backend, ...args } = run.args;
  if (String(run.seed) === args.seed) delete args.seed;
  if (run.gpu_enabled && args.device === "cuda") delete args.device;
  const task = { benchmark: run.benchmark, backend, args: Object.keys(args).length ? args : null };
  const command = {
    image_name: "custom_image",
    custom_image_name: run.image,
    custom_image_command: run.command,
    working_dir: run.working_dir,
    backend: "custom_backend",
    custom_backend: run.backend,
    run_all_nodes: run.run_all_nodes,
  };
  const order = {
    name: nextName(run.display_name),
    ...Object.fromEntries(fields.map((name) => [name, run[name]])),
    max_restarts: run.max_restarts || null,
    ...(run.benchmark ? task : command),
    queue: true,
  };
  return Object.fromEntries(Object.entries(order).filter(([, value]) => value || value === 0));
}

/** @returns {string} `digits-2` after `digits`, and `digits-3` after `digits-2`. */
export function nextName(/** @type {string} */ name) {
  // A longer number is a date or a time.
  const [, stem, number] = /^(.*?)(?:-(\d{1,3}))?$/.exec(name);
  const end = `-${Number(number ?? 1) + 1}`;
  return stem.slice(0, MAX_NAME_LENGTH - end.length).replace(/-+$/, "") + end;
}
