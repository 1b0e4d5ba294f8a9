"""Names that all parts share: environment variables, series, labels, phases and states."""

from collections.abc import Collection, Mapping
from typing import Final, Literal, get_args

# --- Set by the user. ---
ENV_HOME: Final = "MLBENCH_HOME"
ENV_DATASETS: Final = "MLBENCH_DATASETS"
ENV_GIT_COMMIT: Final = "MLBENCH_GIT_COMMIT"  # for code outside of a repository
ENV_HIDE_COMMAND: Final = "MLBENCH_HIDE_COMMAND"  # 1: commands of external jobs are not recorded
ENV_TIME_COMMUNICATION: Final = "MLBENCH_TIME_COMMUNICATION"  # 0: only if the code times it
ENV_FROM_STDOUT: Final = "MLBENCH_FROM_STDOUT"  # 1: values that a program prints are recorded

# --- Set by the agent for a training process. ---
ENV_POD: Final = "MLBENCH_POD"
ENV_RUN_ID: Final = "MLBENCH_RUN_ID"
ENV_ATTEMPT: Final = "MLBENCH_ATTEMPT"
ENV_RANK: Final = "MLBENCH_RANK"
ENV_WORLD_SIZE: Final = "MLBENCH_WORLD_SIZE"
ENV_METRICS_FILE: Final = "MLBENCH_METRICS_FILE"
ENV_OUTPUT: Final = "MLBENCH_OUTPUT"  # a folder, whose small files are stored with the run
ENV_CHECKPOINTS: Final = "MLBENCH_CHECKPOINTS"  # a folder, the same for all attempts of a run
ENV_SEED: Final = "MLBENCH_SEED"
ENV_DEADLINE: Final = "MLBENCH_DEADLINE"  # Unix seconds by this machine's clock
ENV_MULTIPROC_DIR: Final = "PROMETHEUS_MULTIPROC_DIR"
ENV_JOB: Final = "MLBENCH_JOB"  # key of an external job
ENV_LAUNCHER: Final = "MLBENCH_LAUNCHER"  # launcher of an external job
ENV_DIAGNOSIS: Final = "MLBENCH_DIAGNOSIS"  # a folder, for hang diagnoses of a rank's processes
ENV_AGENT: Final = "MLBENCH_AGENT"  # receiver for MLBench's original library: user:token@host:port

# --- Set by the local stack for its services. ---
ENV_TOKEN: Final = "MLBENCH_TOKEN"  # noqa: S105 - the variable's name, not a token
ENV_AGENT_SECRET: Final = "MLBENCH_AGENT_SECRET"  # noqa: S105 - signs the tokens of pods
ENV_PROMETHEUS_URL: Final = "MLBENCH_PROMETHEUS_URL"  # may contain a user and a password
ENV_PROMETHEUS_WRITE_URL: Final = "MLBENCH_PROMETHEUS_WRITE_URL"
ENV_PROMETHEUS_PUBLIC_URL: Final = "MLBENCH_PROMETHEUS_PUBLIC_URL"  # where a browser reaches it
ENV_USER: Final = "MLBENCH_USER"  # user of runs, in place of that of the system
ENV_EXTERNAL_LABELS: Final = "MLBENCH_EXTERNAL_LABELS"  # that Prometheus adds to alerts
ENV_ALERTMANAGERS: Final = "MLBENCH_ALERTMANAGERS"  # URLs to which Prometheus sends alerts
ENV_ALERTMANAGER_CONFIG: Final = "MLBENCH_ALERTMANAGER_CONFIG"  # of an Alertmanager to start
ENV_NOTIFY_URL: Final = "MLBENCH_NOTIFY_URL"  # webhook for ends and hangs of runs; may have a token
ENV_URL: Final = "MLBENCH_URL"  # where browsers and the command line reach the master
ENV_DATABASE_URL: Final = "DATABASE_URL"
ENV_WORKERS: Final = "MLBENCH_WORKERS"
ENV_FORK_SERVER: Final = "MLBENCH_FORK_SERVER"  # 0: agents keep no interpreter ready
ENV_NO_BANDWIDTH: Final = "MLBENCH_NO_BANDWIDTH"  # why workers' bandwidth cannot be limited
ENV_NO_LATENCY: Final = "MLBENCH_NO_LATENCY"  # why latency and packet loss cannot be added
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
ENV_POD_UID: Final = "MLBENCH_POD_UID"  # distinguishes pods with the same name
ENV_OWNER: Final = "MLBENCH_OWNER"  # the Deployment that owns the worker pods

# --- A Grafana of the user: the controller pushes dashboards to it, web pages link to it. ---
ENV_GRAFANA_URL: Final = "GRAFANA_URL"
ENV_GRAFANA_TOKEN: Final = "GRAFANA_TOKEN"  # noqa: S105
ENV_GRAFANA_PROMETHEUS_URL: Final = "GRAFANA_PROMETHEUS_URL"
ENV_GRAFANA_PUBLIC_URL: Final = "GRAFANA_PUBLIC_URL"  # where a browser reaches it

# --- The states of a run. ---
RunState = Literal["INITIALIZED", "STARTED", "FINISHED", "FAILED", "STOPPED"]
RUN_STATES: Final[tuple[RunState, ...]] = get_args(RunState)
ACTIVE_STATES: Final[tuple[RunState, ...]] = ("INITIALIZED", "STARTED")

# --- The append-only streams of a rank; "files" has the files of its output folder. ---
StreamName = Literal["stdout", "stderr", "metrics", "files"]
STREAMS: Final[tuple[StreamName, ...]] = get_args(StreamName)

# --- Phases of a step. They do not nest. ---
# "compute" is an undivided step: a framework's program that also exchanges gradients.
# "checkpoint" is the time for which saving a checkpoint blocks training, "restore" the time for
# loading it. "compile" and "restore" come before the first epoch.
Phase = Literal[
    "data",
    "forward",
    "backward",
    "communication",
    "optimizer",
    "compute",
    "metrics",
    "checkpoint",
    "evaluation",
    "restore",
    "compile",
]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
UNTRAINED: Final[tuple[Phase, ...]] = ("evaluation", "restore", "compile")  # no training time

# --- Buckets of worker time: mlbench/evaluation/goodput.py has the rules. ---
Bucket = Literal[
    "queued",
    "workers",
    "start",
    "initialization",
    "compile",
    "restore",
    "compute",
    "contention",
    "communication",
    "waiting",
    "data",
    "evaluation",
    "checkpoint",
    "paused",
    "stopped",
    "diverged",
    "hung",
    "lost",
    "detection",
    "restart",
    "idle",
    "unknown",
]
BUCKETS: Final[tuple[Bucket, ...]] = get_args(Bucket)

OutcomeKind = Literal["reached", "not_reached", "nan", "hung", "crashed", "stopped", "completed"]
# Outcomes of runs, with the words for people.
OUTCOMES: Final[Mapping[OutcomeKind, str]] = {
    "reached": "target reached",
    "not_reached": "target not reached",
    "nan": "NaN",
    "hung": "hung",
    "crashed": "crashed",
    "stopped": "stopped",
    "completed": "completed",
}

# --- Resource usage that a recorder sidecar reports; the exporter serves it for worker pods. ---
ResourceName = Literal[
    "container_cpu_usage_seconds_total",
    "container_memory_usage_bytes",
    "container_memory_working_set_bytes",
    "container_network_receive_bytes_total",
    "container_network_transmit_bytes_total",
    "container_processes",
    "container_spec_memory_limit_bytes",
    "mlbench_gpu_energy_joules_total",
    "mlbench_gpu_memory_total_bytes",
    "mlbench_gpu_memory_used_bytes",
    "mlbench_gpu_power_watts",
    "mlbench_gpu_utilization_ratio",
]
RESOURCES: Final[tuple[ResourceName, ...]] = get_args(ResourceName)

# --- Progress that a recorder sidecar reports; the agent serves it for worker pods. ---
ProgressName = Literal[
    "mlbench_worker_progress_timestamp_seconds",
    "mlbench_worker_step_seconds_count",
    "mlbench_worker_step_seconds_sum",
    "mlbench_worker_steps_total",
]
PROGRESS: Final[tuple[ProgressName, ...]] = get_args(ProgressName)

# --- Recorded series: exact values, each with its own timestamp. ---
RUN_METRIC: Final = "mlbench_run_metric"  # {run_id, metric, rank}
RUN_ADDED: Final = "mlbench_run_added"  # {run_id, metric, rank}: late samples
POD_METRIC: Final = "mlbench_pod_metric"  # {pod, metric}

# Metrics that the tracker records automatically. Seconds and samples are totals since the start.
EPOCH: Final = "epoch"
STEP: Final = "step"
SAMPLES: Final = "samples"
TRAIN_SECONDS: Final = "train_seconds"  # training time, evaluation left out
# The number of an individually recorded step, and its communication (sampled_steps.py).
SAMPLED_STEP: Final = "sampled_step"
SAMPLED_COMMUNICATION: Final = "sampled_communication_seconds"

# Metrics of checkpoints: the step that a checkpoint on disk contains, its size in bytes, and the
# step that a rank resumes from after a restart (0: from scratch).
CHECKPOINT_STEP: Final = "checkpoint_step"
CHECKPOINT_BYTES: Final = "checkpoint_bytes"
RESTORED_STEP: Final = "restored_step"

# Bytes that an agent records at the end of a rank with a private network.
NETWORK_SENT: Final = "network_sent_bytes"
NETWORK_RECEIVED: Final = "network_received_bytes"

# Metrics that the benchmark tasks record.
TRAIN_LOSS: Final = "train_loss"
TRAIN_ACCURACY: Final = "train_Prec@1"  # percent
VAL_LOSS: Final = "val_global_loss"
VAL_ACCURACY: Final = "val_global_Prec@1"  # percent, over the whole validation set
VAL_ACCURACY5: Final = "val_global_Prec@5"  # the right class is among the five likeliest
TRAIN_PERPLEXITY: Final = "train_Perplexity"  # e to the mean loss of a token
VAL_PERPLEXITY: Final = "val_global_Perplexity"
TRAIN_R2: Final = "train_R2"  # coefficient of determination
VAL_R2: Final = "val_global_R2"
LEARNING_RATE: Final = "learning_rate"
BYTES_PER_STEP: Final = "bytes_sent_per_step"  # the mean over all steps so far
MLBENCH_TOTAL: Final = "global_cum_"  # prefix of a step's seconds in MLBench and older archives
TASK_RESULT: Final = "TaskResult"  # a text: the official result that the original library reports

OF_EACH_STEP: Final = (LEARNING_RATE, EPOCH, STEP, SAMPLES, TRAIN_SECONDS)

# Names that libraries give to losses. Other names with the word "loss" may mean anything.
TRAIN_LOSSES: Final = (
    *(TRAIN_LOSS, "loss", "train/loss", "train-loss", "training_loss", "train_loss_step"),
    *("train_loss_epoch", "train/loss_step", "train/loss_epoch"),
)
VAL_LOSSES: Final = (
    *(VAL_LOSS, "val_loss", "val/loss", "valid_loss", "validation_loss", "eval_loss"),
    *("eval/loss", "test_loss", "test/loss", "val_loss_epoch", "val/loss_epoch"),
)
LOSSES: Final = (*TRAIN_LOSSES, *VAL_LOSSES)

# Names of settings in MLPerf's logging; all other settings have the same name there.
MLPERF_KEYS: Final[Mapping[str, str]] = {
    "batch_size": "global_batch_size",
    "train_samples": "train_samples",
    "validation_samples": "eval_samples",
    "learning_rate": "opt_base_learning_rate",
    "momentum": "opt_momentum",
    "weight_decay": "opt_weight_decay",
}

# Metrics of a message in the communication benchmark, in addition to its size.
MESSAGE_BYTES: Final = "message_bytes"
MessageFigure = Literal[
    "seconds",
    "algorithm_bandwidth_bytes_per_second",
    "bus_bandwidth_bytes_per_second",
    "wrong_values",
]

# --- Scraped from the agent: totals and states. All but WORKER_INFO have run_id and rank. ---
WORKER_INFO: Final = "mlbench_worker_info"  # {pod, run_id, rank}
WORKER_STEPS: Final = "mlbench_worker_steps_total"
WORKER_SAMPLES: Final = "mlbench_worker_samples_total"
WORKER_STEP_SECONDS: Final = "mlbench_worker_step_seconds"
WORKER_PHASE_SECONDS: Final = "mlbench_worker_phase_seconds_total"  # {phase}
WORKER_PROGRESS: Final = "mlbench_worker_progress_timestamp_seconds"
WORKER_RUNNING: Final = "mlbench_worker_running"
WORKER_CONTENTION: Final = "mlbench_worker_cpu_contention_seconds_total"  # {cause: others or own}
WORKER_OTHERS: Final = "mlbench_worker_others_core_seconds_total"
WORKER_STOLEN: Final = "mlbench_worker_stolen_seconds_total"
WORKER_THROTTLED: Final = "mlbench_worker_throttled_seconds_total"
WORKER_PRESSURE: Final = "mlbench_worker_pressure_seconds_total"  # {of: node or pod, resource}
WORKER_MAJOR_FAULTS: Final = "mlbench_worker_major_faults_total"
WORKER_SWITCHES: Final = "mlbench_worker_involuntary_switches_total"
WORKER_CORE_HERTZ: Final = "mlbench_worker_core_hertz"
WORKER_GPU_LIMITED: Final = "mlbench_worker_gpu_limited_seconds_total"  # {reason}
WORKER_TIME: Final = "mlbench_worker_time_seconds"  # without labels: the worker's clock

DISTURBED_SHARE: Final = 0.05
"""Share of a rank's time above which CPU contention or steal time marks its run as disturbed."""

# --- Scraped from the master. ---
RUN_INFO: Final = "mlbench_run_info"  # {run_id, name, user, benchmark, backend, workers}
RUN_SET_INFO: Final = "mlbench_run_set_info"  # {run_id, set, swept}
RUN_STATE: Final = "mlbench_run_state"  # {run_id, state}
RUN_FAILURE: Final = "mlbench_run_failure_info"  # {run_id, reason}
RUN_DIAGNOSIS: Final = (
    "mlbench_run_diagnosis_timestamp_seconds"  # {run_id, verdict}: of the last one
)
RUN_CREATED: Final = "mlbench_run_created_timestamp_seconds"
RUN_STARTED: Final = "mlbench_run_started_timestamp_seconds"
RUN_FINISHED: Final = "mlbench_run_finished_timestamp_seconds"
RUN_TARGET: Final = "mlbench_run_target"  # {run_id, metric, better: higher or lower}
RUN_TARGET_REACHED: Final = "mlbench_run_target_reached_timestamp_seconds"
RUN_TIME_TO_TARGET: Final = "mlbench_run_time_to_target_seconds"  # training time without evaluation
# Results of runs that have ended. All have the label run_id; ratios are from 0 to 1.
RUN_OUTCOME: Final = "mlbench_run_outcome"  # {outcome}: 1 for the outcome of the run
RUN_TRAINING_SECONDS: Final = "mlbench_run_training_seconds"
RUN_SAMPLES_PER_SECOND: Final = "mlbench_run_samples_per_second"
RUN_TRAINED_SAMPLES: Final = "mlbench_run_trained_samples"
RUN_STEP_SECONDS: Final = "mlbench_run_step_seconds"
RUN_COMMUNICATION: Final = "mlbench_run_communication_ratio"
RUN_CONTENTION_RATIO: Final = (
    "mlbench_run_cpu_contention_ratio"  # {rank}: the rank with most contention
)
RUN_DISTURBED: Final = "mlbench_run_disturbed"
RUN_STRAGGLER: Final = "mlbench_run_straggler_ratio"  # {rank}: the straggler
RUN_EPOCHS: Final = "mlbench_run_epochs"
RUN_BEST_VALUE: Final = "mlbench_run_best_value"  # {metric}
RUN_LAST_VALUE: Final = "mlbench_run_last_value"  # {metric}
RUN_PHASE_SECONDS: Final = "mlbench_run_phase_seconds"  # {phase}
RUN_GOODPUT: Final = "mlbench_run_goodput_seconds"  # {bucket}: of all workers
RUN_WORKERS: Final = "mlbench_run_workers"
RUN_WORLD_SIZE: Final = "mlbench_run_world_size"
RUN_CPUS: Final = "mlbench_run_cpus"
RUN_THREADS: Final = "mlbench_run_threads"
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
UNASKED_BANDWIDTH: Final = 1000  # Mbit/s, the default of the original MLBench's clients
LOCAL_POD_PREFIX: Final = "local-mlbench-worker-"


def external_pod(run_id: int | None, rank: int | None) -> str:
    """Return the name of the pod that represents a rank of an external job."""
    return f"run-{run_id}-rank-{rank}"


def loss_among(metrics: Collection[str]) -> str | None:
    """Return the name of a loss among a run's metrics, preferably in training; None without one."""
    return next((name for name in LOSSES if name in metrics), None)


def message_metric(operation: str, dtype: str, figure: MessageFigure) -> str:
    """Return the metric of a message in the benchmark, e.g. ``all_reduce_float32_seconds``."""
    return f"{operation}_{dtype}_{figure}"


def totals_file(metrics_file: str, rank: int | str, pid: int) -> str:
    """Return the file with the totals of a process of a rank, next to the metrics file."""
    return f"{metrics_file}.{rank}.{pid}.totals"


RUN_FILE: Final = "run.json"
"""Name of the file in a rank's folder with the id of its run, once the master has assigned it."""
EXIT_FILE: Final = "exit.json"
"""Name of the file in a rank's folder with its exit: ``code``, ``at`` and ``failure``."""


def own_names_file(metrics_file: str, pid: int) -> str:
    """Return the file that lists the metrics that a process records itself, a line each.

    It is next to the metrics file. Values with these names in TensorBoard's event files are not
    recorded a second time. An empty line means that the process reports settings. A line that
    starts with NUL is a folder whose event files have the same names without a prefix.
    """
    return f"{metrics_file}.{pid}.names"


def hidden_metric(phase: Phase) -> str:
    """Return the metric of a phase's total seconds in background threads."""
    return f"hidden_{phase}_seconds"


def phase_metric(phase: Phase) -> str:
    """Return the metric of a phase's total seconds, e.g. ``forward_seconds``."""
    return f"{phase}_seconds"


_TOTALS = {
    *(EPOCH, STEP, SAMPLES, TRAIN_SECONDS, SAMPLED_STEP, SAMPLED_COMMUNICATION),
    *(CHECKPOINT_STEP, CHECKPOINT_BYTES, RESTORED_STEP, NETWORK_SENT, NETWORK_RECEIVED),
    *(name for phase in PHASES for name in (phase_metric(phase), hidden_metric(phase))),
}


def is_total(metric: str) -> bool:
    """Return whether MLBench records a metric by itself: a clock, a total or a checkpoint."""
    return metric in _TOTALS or metric.startswith(MLBENCH_TOTAL)
