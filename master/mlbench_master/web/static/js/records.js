// Small questions about the API's records. Their types are global: scripts/check-javascript.sh makes them.

import * as format from "./format.js";

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

/** @returns {number | null} seconds from a run's start to its end, or whole seconds until now. */
export function elapsedSeconds(/** @type {Run} */ run, /** @type {number} */ now) {
  if (run.started_at === null) return null;
  const end = run.finished_at === null ? now : Date.parse(run.finished_at);
  const seconds = Math.max(0, (end - Date.parse(run.started_at)) / 1000);
  return run.finished_at === null ? Math.floor(seconds) : seconds;
}

/** @returns {string} the resources of a run: `2 workers, 1 core each, GPU`. */
export function resourcesOf(/** @type {Run} */ run) {
  const cores = run.num_cpus && `${format.number(run.num_cpus)} ${run.num_cpus === 1 ? "core" : "cores"} each`;
  return [format.plural(run.num_workers, "worker"), cores, run.gpu_enabled && "GPU"].filter(Boolean).join(", ");
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

/** @returns {number} how many samples Prometheus has lost; negative if it has too many, NaN if they were not counted. */
export function missingOf(/** @type {Delivery | null} */ delivery) {
  return delivery ? delivery.recorded - delivery.in_prometheus - delivery.record_only : NaN;
}

/** @returns {string} the first step with a loss that is not finite; empty for a finite loss. */
export function notFiniteOf(/** @type {Pick<Run, "not_finite">} */ { not_finite: loss }) {
  if (!loss) return "";
  const since = loss.step === null ? "" : ` since step ${loss.step.toLocaleString("en")}`;
  return `${format.metricTitle(loss.metric)} is not a number${since}`;
}

/** @returns {string} the last line of the reason why a run ended: the error, if a rank reported one. */
export function errorOf(/** @type {Pick<Run, "reason">} */ run) {
  const line = run.reason.trim().split("\n").at(-1).trim();
  return line.replace(BEFORE_ERROR, "");
}

/** @returns {string} the swept values of a run, for example `learning rate 0.1, exchange topk`. */
export function sweptOf(/** @type {{ swept: Record<string, string> }} */ { swept }) {
  return Object.entries(swept).map(([key, value]) => `${key.replaceAll("_", " ")} ${value}`).join(", ");
}

/** @returns {string} a run's name and id, to distinguish it from others; or its swept values. */
export function labelOf(/** @type {Result} */ result) {
  // Isolated, because a name in Hebrew or Arabic would turn the id around.
  return `\u2068${sweptOf(result) || result.display_name}\u2069 #${result.run_id}`;
}

/**
 * Describe the outcome of a run: `97 % in 9.3 s`, `NaN since step 61`, `hung · rank 1 at step 61`,
 * `crashed · rank 1`, `61.8 of 90 %`, `running · 61.8 of 90 %`. The value is the best one of the target's
 * metric, or the last one of an active run; the state is the kind of the outcome, if there is one.
 * @returns {[state: string, text: string, title: string]} of a badge
 */
export function outcomeOf(/** @type {Run} */ run, /** @type {unknown} */ value = run.values?.best) {
  const state = stateOf(run);
  return [state, textOf(run, state, value), run.outcome?.text || run.reason || waitingFor(run)];
}

function stateOf(/** @type {Run} */ run) {
  if (run.outcome) return run.outcome.kind;
  if (isActive(run) && run.not_finite) return "nan";
  // The outcome is known a moment after the end.
  const isReached = run.target_reached_at && !run.stop_requested && !["FAILED", "STOPPED"].includes(run.state);
  return isReached ? "reached" : run.state.toLowerCase();
}

function textOf(/** @type {Run} */ run, /** @type {string} */ state, /** @type {unknown} */ value) {
  const { target, target_train_seconds: seconds } = run;
  const { rank = null, step = null } = run.outcome ?? {};
  const aim = target && format.metric(target.metric, target.value);
  const way = target && typeof value === "number" && `${besides(value, target.value)} of ${aim}`;
  const took = seconds == null ? "" : ` in ${format.duration(seconds)}`;
  const first = step ?? run.not_finite?.step ?? null;
  const at = state === "hung" && step !== null && `at step ${format.count(step + 1)}`;
  const place = [rank !== null && `rank ${rank}`, at].filter(Boolean).join(" ");
  const texts = {
    reached: [target && format.isPercent(target.metric) ? `${aim}${took || " reached"}` : `reached${took}`, isActive(run) && "running"],
    nan: [first === null ? "NaN" : `NaN since step ${format.count(first)}`],
    not_reached: [way || `${aim ?? "target"} not reached`],
    initialized: ["queued"],
    started: run.stop_requested ? ["stopping"] : ["running", way],
    stopped: ["stopped", way],
  };
  return (texts[state] ?? [state, place]).filter(Boolean).join(" · ");
}

// A value that misses a target is not rounded to it.
function besides(/** @type {number} */ value, /** @type {number} */ target) {
  const digits = [3, 4, 5, 6].find((count) => value === target || format.number(value, count) !== format.number(target, count));
  return format.number(value, digits ?? 15);
}
