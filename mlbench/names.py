"""The names that the parts share: environment variables, series, labels, phases and states."""

from typing import Final, Literal, get_args

# --- Set by the user. ---
ENV_HOME: Final = "MLBENCH_HOME"
ENV_DATASETS: Final = "MLBENCH_DATASETS"
ENV_GIT_COMMIT: Final = "MLBENCH_GIT_COMMIT"  # of code that lies in no repository

# --- Set by the agent for a training process. ---
ENV_POD: Final = "MLBENCH_POD"
ENV_RUN_ID: Final = "MLBENCH_RUN_ID"
ENV_ATTEMPT: Final = "MLBENCH_ATTEMPT"
ENV_RANK: Final = "MLBENCH_RANK"
ENV_WORLD_SIZE: Final = "MLBENCH_WORLD_SIZE"
ENV_METRICS_FILE: Final = "MLBENCH_METRICS_FILE"
ENV_CHECKPOINTS: Final = "MLBENCH_CHECKPOINTS"  # a folder, the same for all attempts of a run
ENV_SEED: Final = "MLBENCH_SEED"
ENV_DEADLINE: Final = "MLBENCH_DEADLINE"  # Unix seconds by this machine's clock
ENV_MULTIPROC_DIR: Final = "PROMETHEUS_MULTIPROC_DIR"

# --- Set by the local stack for its services. ---
ENV_TOKEN: Final = "MLBENCH_TOKEN"  # noqa: S105 - the variable's name, not a token
ENV_AGENT_SECRET: Final = "MLBENCH_AGENT_SECRET"  # noqa: S105 - signs the tokens of pods
ENV_PROMETHEUS_URL: Final = "MLBENCH_PROMETHEUS_URL"  # may carry a user and a password
ENV_URL: Final = "MLBENCH_URL"  # where browsers and the command line reach the master
ENV_DATABASE_URL: Final = "DATABASE_URL"
ENV_WORKERS: Final = "MLBENCH_WORKERS"
ENV_SCRAPE_INTERVAL: Final = "MLBENCH_SCRAPE_INTERVAL"  # of Prometheus, for Grafana: 2s
ENV_DASHBOARDS: Final = "MLBENCH_DASHBOARDS"  # the folder that Grafana reads
ENV_PROMETHEUS_BASIC_AUTH: Final = "MLBENCH_PROMETHEUS_BASIC_AUTH"  # for Grafana: true
ENV_PROMETHEUS_USER: Final = "MLBENCH_PROMETHEUS_USER"  # for Grafana
ENV_PROMETHEUS_PASSWORD: Final = "MLBENCH_PROMETHEUS_PASSWORD"  # noqa: S105 - for Grafana
DEFAULT_SCRAPE_INTERVAL: Final = "2s"

# --- Set by the chart. ---
ENV_POOL: Final = "MLBENCH_POOL"  # where workers come from: local, kubernetes
ENV_WORKER_MANIFEST: Final = "MLBENCH_WORKER_MANIFEST"  # the file that describes worker pods
ENV_NAMESPACE: Final = "MLBENCH_NAMESPACE"
ENV_POD_UID: Final = "MLBENCH_POD_UID"  # tells a pod from a later one of the same name
ENV_OWNER: Final = "MLBENCH_OWNER"  # the Deployment that owns the worker pods

# --- A Grafana of the user: the controller pushes dashboards to it, web pages link to it. ---
ENV_GRAFANA_URL: Final = "GRAFANA_URL"
ENV_GRAFANA_TOKEN: Final = "GRAFANA_TOKEN"  # noqa: S105
ENV_GRAFANA_PROMETHEUS_URL: Final = "GRAFANA_PROMETHEUS_URL"
ENV_GRAFANA_PUBLIC_URL: Final = "GRAFANA_PUBLIC_URL"  # where a browser reaches it

# --- The states of a run. ---
RunState = Literal["INITIALIZED", "STARTED", "FINISHED", "FAILED", "STOPPED"]
ACTIVE_STATES: Final[tuple[RunState, ...]] = ("INITIALIZED", "STARTED")

# --- The three append-only streams of a rank. ---
StreamName = Literal["stdout", "stderr", "metrics"]
STREAMS: Final[tuple[StreamName, ...]] = get_args(StreamName)

# --- Where the time of a step goes. Phases do not nest. ---
Phase = Literal[
    "data", "forward", "backward", "communication", "optimizer", "metrics", "evaluation"
]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)

# --- Recorded series: exact, every value with its own time. ---
RUN_METRIC: Final = "mlbench_run_metric"  # {run_id, metric, rank}
POD_METRIC: Final = "mlbench_pod_metric"  # {pod, metric}

# Metrics that the tracker records by itself. Seconds and samples are totals since the start.
EPOCH: Final = "epoch"
STEP: Final = "step"
SAMPLES: Final = "samples"
TRAIN_SECONDS: Final = "train_seconds"  # training time, evaluation left out

# Metrics that the benchmark tasks record.
TRAIN_LOSS: Final = "train_loss"
TRAIN_ACCURACY: Final = "train_Prec@1"  # percent
VAL_LOSS: Final = "val_global_loss"
VAL_ACCURACY: Final = "val_global_Prec@1"  # percent, over the whole validation set
VAL_ACCURACY5: Final = "val_global_Prec@5"  # the right class is among the five likeliest
TRAIN_R2: Final = "train_R2"  # coefficient of determination
VAL_R2: Final = "val_global_R2"
LEARNING_RATE: Final = "learning_rate"

# What the communication task records of a message, beside its size.
MESSAGE_BYTES: Final = "message_bytes"
MessageFigure = Literal[
    "seconds",
    "algorithm_bandwidth_bytes_per_second",
    "bus_bandwidth_bytes_per_second",
    "wrong_values",
]

# --- Scraped from the agent: totals and states. The others carry run_id and rank. ---
WORKER_INFO: Final = "mlbench_worker_info"  # {pod, run_id, rank}
WORKER_STEPS: Final = "mlbench_worker_steps_total"
WORKER_SAMPLES: Final = "mlbench_worker_samples_total"
WORKER_STEP_SECONDS: Final = "mlbench_worker_step_seconds"
WORKER_PHASE_SECONDS: Final = "mlbench_worker_phase_seconds_total"  # {phase}
WORKER_PROGRESS: Final = "mlbench_worker_progress_timestamp_seconds"
WORKER_RUNNING: Final = "mlbench_worker_running"
WORKER_TIME: Final = "mlbench_worker_time_seconds"  # without labels: the worker's clock

# --- Scraped from the master. ---
RUN_INFO: Final = "mlbench_run_info"  # {run_id, name, benchmark, backend, workers}
RUN_STATE: Final = "mlbench_run_state"  # {run_id, state}
RUN_FAILURE: Final = "mlbench_run_failure_info"  # {run_id, reason}
RUN_CREATED: Final = "mlbench_run_created_timestamp_seconds"
RUN_STARTED: Final = "mlbench_run_started_timestamp_seconds"
RUN_FINISHED: Final = "mlbench_run_finished_timestamp_seconds"
RUN_GOAL: Final = "mlbench_run_goal"  # {run_id, metric, better: higher or lower}
RUN_GOAL_REACHED: Final = "mlbench_run_goal_reached_timestamp_seconds"
RUN_TIME_TO_GOAL: Final = "mlbench_run_time_to_goal_seconds"  # of training, evaluation left out
RUN_WORKERS: Final = "mlbench_run_workers"
RUN_CPUS: Final = "mlbench_run_cpus"
RUN_ATTEMPTS: Final = "mlbench_run_attempts"
RUN_LOST_RANKS: Final = "mlbench_run_lost_ranks"
RUN_SAMPLES: Final = "mlbench_run_samples"  # {run_id, place}
RUN_WAITING: Final = "mlbench_run_waiting_bytes"
POD_INFO: Final = "mlbench_pod_info"  # {pod, phase, node}
POD_HEARTBEAT: Final = "mlbench_pod_heartbeat_timestamp_seconds"  # {pod}
MASTER_INFO: Final = "mlbench_master_info"  # {url, version}

# --- Scraped from the exporter, and read by the master. ---
GPU_ENERGY: Final = "mlbench_gpu_energy_joules_total"  # {node, gpu, uuid, pod}

# --- Pods. ---
THIS_MACHINE: Final = "local"  # the image of a command that runs on the local worker's machine
LOCAL_POD_PREFIX: Final = "local-mlbench-worker-"


def message_metric(operation: str, dtype: str, figure: MessageFigure) -> str:
    """Return the recorded metric of a message, e.g. ``all_reduce_float32_seconds``."""
    return f"{operation}_{dtype}_{figure}"


def phase_metric(phase: Phase) -> str:
    """Return the recorded metric that holds a phase's total seconds, e.g. ``forward_seconds``."""
    return f"{phase}_seconds"
