// What to order to have a run once more. Pure.

const LONGEST_NAME = 40;
const BACKENDS = ["gloo", "nccl", "mpi"];

/**
 * @param {any} run as the API shows it
 * @returns {Record<string, unknown>} the body of `POST /api/runs/` for the same run under the next
 *   name, which waits if a run is active; what says nothing is left out
 */
export function toOrder(run) {
  const order = {
    name: nextName(run.name),
    num_workers: run.num_workers,
    num_cpus: run.num_cpus,
    max_bandwidth: run.max_bandwidth,
    gpu_enabled: run.gpu_enabled,
    light_target: run.light_target,
    seed: run.seed,
    deadline_seconds: run.deadline_seconds,
    max_restarts: run.max_restarts || null,
    ...(run.benchmark ? ofTask(run) : ofCommand(run)),
    queue: true,
  };
  const isSaid = (value) => value != null && value !== false && value !== "";
  return Object.fromEntries(Object.entries(order).filter(([, value]) => isSaid(value)));
}

/** @returns {string} `digits-2` after `digits`, `digits-3` after `digits-2`; at most 40 letters. */
export function nextName(/** @type {string} */ name) {
  // A longer number is a date or a time.
  const [, stem, number] = /^(.*?)(?:-(\d{1,3}))?$/.exec(name);
  const end = `-${Number(number ?? 1) + 1}`;
  return stem.slice(0, LONGEST_NAME - end.length).replace(/-+$/, "") + end;
}

function ofTask(run) {
  const { backend, ...args } = run.args;
  if (String(run.seed) === args.seed) delete args.seed;
  if (run.gpu_enabled && args.device === "cuda") delete args.device;
  return {
    benchmark: run.benchmark,
    backend,
    args: Object.keys(args).length ? args : undefined,
  };
}

function ofCommand(run) {
  return {
    image_name: "custom_image",
    custom_image_name: run.image,
    custom_image_command: run.command,
    working_dir: run.working_dir,
    ...backendOf(run),
  };
}

function backendOf({ backend, run_all_nodes: onAll }) {
  const isUsual = BACKENDS.includes(backend) && onAll === (backend !== "mpi");
  if (isUsual) return { backend };
  return { backend: "custom_backend", custom_backend: backend, run_all_nodes: onAll };
}
