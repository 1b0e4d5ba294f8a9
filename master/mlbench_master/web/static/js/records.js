// Small questions about the API's records. Their types are global: scripts/check-javascript.sh makes them.

import { number, plural } from "./format.js";

/** The states of a run, in the order in which they can follow each other. */
export const ACTIVE_STATES = ["INITIALIZED", "STARTED"];
export const STATES = [...ACTIVE_STATES, "FINISHED", "FAILED", "STOPPED"];

/** The phases of a training step, in order; a test compares them with mlbench/contract/names.py. */
export const PHASES = [
  ...["data", "forward", "backward", "communication", "optimizer", "compute", "metrics"],
  ...["checkpoint", "evaluation", "restore", "compile"],
];

/** @returns {string | undefined} the custom property of a phase's colour; time in no phase has none. */
export function colourOfPhase(/** @type {string} */ phase) {
  return PHASES.includes(phase) ? `--phase-${phase}` : undefined;
}

/** Names of losses in libraries, for training and validation; a test compares them with names.py. */
export const LOSSES = [
  ...["train_loss", "loss", "train/loss", "train-loss", "training_loss", "train_loss_step"],
  ...["train_loss_epoch", "train/loss_step", "train/loss_epoch"],
  ...["val_global_loss", "val_loss", "val/loss", "valid_loss", "validation_loss", "eval_loss"],
  ...["eval/loss", "test_loss", "test/loss", "val_loss_epoch", "val/loss_epoch"],
];

/** @returns {boolean} whether a run may still change its state. */
export function isActive(/** @type {{ state: string }} */ run) {
  return ACTIVE_STATES.includes(run.state);
}

/** @returns {string} the reason why a run waits; empty if it does not wait. */
export function waitingFor(/** @type {{ state: string, waiting: string }} */ run) {
  return run.waiting || (run.state === "INITIALIZED" ? "waiting in the queue" : "");
}

// What PyTorch writes before each line of a traceback, and the module of an exception.
const BEFORE_ERROR = /^\[rank\d+\]: (\w+\.)*(?=\w+(:|$))/;
const SCRIPT = /\.(py|sh|js|jl|R|pl|rb)$/;

/** @returns {number | null} seconds from a run's start to its end, or whole ones to now. */
export function elapsedSeconds(/** @type {Run} */ run, /** @type {number} */ now) {
  if (run.started_at === null) return null;
  const end = run.finished_at === null ? now : Date.parse(run.finished_at);
  const seconds = Math.max(0, (end - Date.parse(run.started_at)) / 1000);
  return run.finished_at === null ? Math.floor(seconds) : seconds;
}

/** @returns {string} the resources of a run: `2 workers, 1 core each, GPU`. */
export function resourcesOf(/** @type {Run} */ run) {
  const cores = run.num_cpus && `${number(run.num_cpus)} ${run.num_cpus === 1 ? "core" : "cores"} each`;
  return [plural(run.num_workers, "worker"), cores, run.gpu_enabled && "GPU"].filter(Boolean).join(", ");
}

/** @returns {string} the origin of an imported or external run. */
export function originOf(/** @type {Pick<Run, "origin" | "launcher">} */ { origin, launcher }) {
  if (!origin) return launcher && `started by ${launcher}`;
  const where = origin.installation || "another installation";
  return `run ${origin.run_id} of ${where}${origin.set_name ? `, set ${origin.set_name}` : ""}`;
}

/** @returns {string} a run's benchmark, or else the script or module that its command runs. */
export function codeOf(/** @type {Pick<Run, "benchmark" | "command">} */ run) {
  if (run.benchmark) return run.benchmark;
  const words = run.command.split(/\s+/);
  const module = words.indexOf("-m") + 1;
  const script = words.find((word) => SCRIPT.test(word));
  return (script ?? (module ? words[module] : words[0])).split("/").at(-1);
}

/** @returns {string} the first step with a loss that is not finite; empty for a finite loss. */
export function notFiniteOf(/** @type {Pick<Run, "not_finite">} */ { not_finite: loss }) {
  if (!loss) return "";
  const since = loss.step === null ? "" : ` since step ${loss.step.toLocaleString("en")}`;
  return `${loss.metric} is not a number${since}`;
}

/** @returns {string} the last line of why a run ended: the error, where a rank wrote one. */
export function errorOf(/** @type {Pick<Run, "reason">} */ run) {
  const line = run.reason.trim().split("\n").at(-1).trim();
  return line.replace(BEFORE_ERROR, "");
}

/** @returns {string} the swept values of a run, for example `exchange topk, bandwidth 20`. */
export function sweptOf(/** @type {{ swept: Record<string, string> }} */ { swept }) {
  return Object.entries(swept).map(([key, value]) => `${key} ${value}`).join(", ");
}

/** @returns {string} what a list calls a run: its title, or without one what its set sweeps. */
export function nameOf(/** @type {Pick<Run, "title" | "display_name" | "name" | "swept" | "num_workers">} */ run) {
  const pairs = Object.entries(run.swept);
  if (!pairs.length || run.title !== (run.display_name || run.name)) return run.title;
  return [...pairs, ["workers", run.num_workers]].map(([key, value]) => `${key}=${value}`).join(", ");
}

/** @returns {string} a run's name and id, where several are shown together; or what it sweeps. */
export function labelOf(/** @type {Result} */ result) {
  // Isolated, because a name in Hebrew or Arabic would turn the id around.
  return `\u2068${sweptOf(result) || result.display_name}\u2069 #${result.run_id}`;
}
