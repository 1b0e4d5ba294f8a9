"""The names that the parts share: environment variables, series, labels, phases and states."""

from collections.abc import Collection, Mapping
from typing import Final, Literal, get_args

# --- Set by the user. ---
ENV_HOME: Final = "MLBENCH_HOME"
ENV_DATASETS: Final = "MLBENCH_DATASETS"
ENV_GIT_COMMIT: Final = "MLBENCH_GIT_COMMIT"  # of code that lies in no repository
ENV_HIDE_COMMAND: Final = "MLBENCH_HIDE_COMMAND"  # 1: no command of a recorded job is recorded

# --- Set by the agent for a training process. ---
ENV_POD: Final = "MLBENCH_POD"
ENV_RUN_ID: Final = "MLBENCH_RUN_ID"
ENV_ATTEMPT: Final = "MLBENCH_ATTEMPT"
ENV_RANK: Final = "MLBENCH_RANK"
ENV_WORLD_SIZE: Final = "MLBENCH_WORLD_SIZE"
ENV_METRICS_FILE: Final = "MLBENCH_METRICS_FILE"
ENV_OUTPUT: Final = "MLBENCH_OUTPUT"  # a folder, whose small files go with the run
ENV_CHECKPOINTS: Final = "MLBENCH_CHECKPOINTS"  # a folder, the same for all attempts of a run
ENV_SEED: Final = "MLBENCH_SEED"
ENV_DEADLINE: Final = "MLBENCH_DEADLINE"  # Unix seconds by this machine's clock
ENV_MULTIPROC_DIR: Final = "PROMETHEUS_MULTIPROC_DIR"
ENV_JOB: Final = "MLBENCH_JOB"  # the key of a job that others started, and that is recorded
ENV_LAUNCHER: Final = "MLBENCH_LAUNCHER"  # of such a job
ENV_AUTOPSY: Final = "MLBENCH_AUTOPSY"  # a folder, by which an agent looks into a rank's Pythons
ENV_AGENT: Final = "MLBENCH_AGENT"  # where MLBench's original library reports: user:token@host:port

# --- Set by the local stack for its services. ---
ENV_TOKEN: Final = "MLBENCH_TOKEN"  # noqa: S105 - the variable's name, not a token
ENV_AGENT_SECRET: Final = "MLBENCH_AGENT_SECRET"  # noqa: S105 - signs the tokens of pods
ENV_PROMETHEUS_URL: Final = "MLBENCH_PROMETHEUS_URL"  # may carry a user and a password
ENV_URL: Final = "MLBENCH_URL"  # where browsers and the command line reach the master
ENV_DATABASE_URL: Final = "DATABASE_URL"
ENV_WORKERS: Final = "MLBENCH_WORKERS"
ENV_LET_OUT: Final = "MLBENCH_LET_OUT"  # lets local workers' code out of its own network
ENV_FORK_SERVER: Final = "MLBENCH_FORK_SERVER"  # 0: agents keep no interpreter ready
ENV_NO_BANDWIDTH: Final = "MLBENCH_NO_BANDWIDTH"  # why workers' bandwidth cannot be limited
ENV_NO_LATENCY: Final = "MLBENCH_NO_LATENCY"  # why what they send can be neither late nor lost
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
RUN_STATES: Final[tuple[RunState, ...]] = get_args(RunState)
ACTIVE_STATES: Final[tuple[RunState, ...]] = ("INITIALIZED", "STARTED")

# --- The append-only streams of a rank; "files" is what it leaves in its output folder. ---
StreamName = Literal["stdout", "stderr", "metrics", "files"]
STREAMS: Final[tuple[StreamName, ...]] = get_args(StreamName)

# --- Where the time of a step goes. Phases do not nest. ---
# "compute" is a step in one piece: a framework's program, which exchanges gradients as well.
# "checkpoint" is the time for which saving one holds the training up, "restore" that of loading it.
# "compile" makes a program; like "restore", it comes before the first epoch.
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

# --- Where every worker-second goes: mlbench/evaluation/goodput.py has the rules. ---
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
# What a run achieved, with the words for people.
OUTCOMES: Final[Mapping[OutcomeKind, str]] = {
    "reached": "target reached",
    "not_reached": "target not reached",
    "nan": "NaN",
    "hung": "hung",
    "crashed": "crashed",
    "stopped": "stopped",
    "completed": "completed",
}

# --- What the recorder of a rank reports of it, as the exporter serves it of worker pods. ---
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

# --- And of its steps, as the agent of a worker pod serves it. ---
ProgressName = Literal[
    "mlbench_worker_progress_timestamp_seconds",
    "mlbench_worker_step_seconds_count",
    "mlbench_worker_step_seconds_sum",
    "mlbench_worker_steps_total",
]
PROGRESS: Final[tuple[ProgressName, ...]] = get_args(ProgressName)

# --- Recorded series: exact, every value with its own time. ---
RUN_METRIC: Final = "mlbench_run_metric"  # {run_id, metric, rank}
RUN_ADDED: Final = "mlbench_run_added"  # the same: what was posted after the run's end
POD_METRIC: Final = "mlbench_pod_metric"  # {pod, metric}

# Metrics that the tracker records by itself. Seconds and samples are totals since the start.
EPOCH: Final = "epoch"
STEP: Final = "step"
SAMPLES: Final = "samples"
TRAIN_SECONDS: Final = "train_seconds"  # training time, evaluation left out
# The number of a step that is recorded by itself, and its communication (sampled_steps.py).
SAMPLED_STEP: Final = "sampled_step"
SAMPLED_COMMUNICATION: Final = "sampled_communication_seconds"

# Metrics of checkpoints: the steps that one contains, once it lies on the disk; its bytes; and the
# steps that a rank goes on from after a restart, 0 where it begins anew.
CHECKPOINT_STEP: Final = "checkpoint_step"
CHECKPOINT_BYTES: Final = "checkpoint_bytes"
RESTORED_STEP: Final = "restored_step"

# Metrics that an agent records of a rank at its end, where its network is its own: bytes.
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
MLBENCH_TOTAL: Final = "global_cum_"  # and a step of MLBench's: its seconds, by rank 0
TASK_RESULT: Final = "TaskResult"  # a text, by rank 0: MLBench's official result

OF_EACH_STEP: Final = (LEARNING_RATE, EPOCH, STEP, SAMPLES, TRAIN_SECONDS)

# What libraries call a loss; other names that have the word may be anything.
TRAIN_LOSSES: Final = (
    *(TRAIN_LOSS, "loss", "train/loss", "train-loss", "training_loss", "train_loss_step"),
    *("train_loss_epoch", "train/loss_step", "train/loss_epoch"),
)
VAL_LOSSES: Final = (
    *(VAL_LOSS, "val_loss", "val/loss", "valid_loss", "validation_loss", "eval_loss"),
    *("eval/loss", "test_loss", "test/loss", "val_loss_epoch", "val/loss_epoch"),
)
LOSSES: Final = (*TRAIN_LOSSES, *VAL_LOSSES)

# What MLPerf's logging calls settings; others have the same name there.
MLPERF_KEYS: Final[Mapping[str, str]] = {
    "batch_size": "global_batch_size",
    "train_samples": "train_samples",
    "validation_samples": "eval_samples",
    "learning_rate": "opt_base_learning_rate",
    "momentum": "opt_momentum",
    "weight_decay": "opt_weight_decay",
}

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
WORKER_WAITING: Final = "mlbench_worker_waiting_seconds_total"  # {cause: others or own}
WORKER_OTHERS: Final = "mlbench_worker_others_core_seconds_total"
WORKER_STOLEN: Final = "mlbench_worker_stolen_seconds_total"
WORKER_THROTTLED: Final = "mlbench_worker_throttled_seconds_total"
WORKER_PRESSURE: Final = "mlbench_worker_pressure_seconds_total"  # {of: node or pod, resource}
WORKER_MAJOR_FAULTS: Final = "mlbench_worker_major_faults_total"
WORKER_SWITCHES: Final = "mlbench_worker_involuntary_switches_total"
WORKER_CORE_HERTZ: Final = "mlbench_worker_core_hertz"
WORKER_GPU_LIMITED: Final = "mlbench_worker_gpu_limited_seconds_total"  # {reason}
WORKER_TIME: Final = "mlbench_worker_time_seconds"  # without labels: the worker's clock

# A run is disturbed if it waited for others' work, or had its cores stolen, for more of its time.
DISTURBED_SHARE: Final = 0.05

# --- Scraped from the master. ---
RUN_INFO: Final = "mlbench_run_info"  # {run_id, name, benchmark, backend, workers}
RUN_SET_INFO: Final = "mlbench_run_set_info"  # {run_id, set, swept}
RUN_STATE: Final = "mlbench_run_state"  # {run_id, state}
RUN_FAILURE: Final = "mlbench_run_failure_info"  # {run_id, reason}
RUN_AUTOPSY: Final = "mlbench_run_autopsy_timestamp_seconds"  # {run_id, verdict}: of the last one
RUN_CREATED: Final = "mlbench_run_created_timestamp_seconds"
RUN_STARTED: Final = "mlbench_run_started_timestamp_seconds"
RUN_FINISHED: Final = "mlbench_run_finished_timestamp_seconds"
RUN_GOAL: Final = "mlbench_run_goal"  # {run_id, metric, better: higher or lower}
RUN_GOAL_REACHED: Final = "mlbench_run_goal_reached_timestamp_seconds"
RUN_TIME_TO_GOAL: Final = "mlbench_run_time_to_goal_seconds"  # of training, evaluation left out
# What the result of a run that has ended says; each has the label run_id, shares are from 0 to 1.
RUN_OUTCOME: Final = "mlbench_run_outcome"  # {outcome}: 1 for the outcome of the run
RUN_TRAINING_SECONDS: Final = "mlbench_run_training_seconds"
RUN_SAMPLES_PER_SECOND: Final = "mlbench_run_samples_per_second"
RUN_TRAINED_SAMPLES: Final = "mlbench_run_trained_samples"
RUN_STEP_SECONDS: Final = "mlbench_run_step_seconds"
RUN_COMMUNICATION: Final = "mlbench_run_communication_ratio"
RUN_WAITING_RATIO: Final = "mlbench_run_waiting_ratio"  # {rank}: the one that waited most
RUN_DISTURBED: Final = "mlbench_run_disturbed"
RUN_STRAGGLER: Final = "mlbench_run_straggler_ratio"  # {rank}: the one that was late most
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
UNASKED_BANDWIDTH: Final = 1000  # Mbit/s that MLBench's clients send where nothing is asked for
LOCAL_POD_PREFIX: Final = "local-mlbench-worker-"


def recorded_pod(run_id: int | None, rank: int | None) -> str:
    """Return the name of the pod that stands for a rank of a run which MLBench did not start."""
    return f"run-{run_id}-rank-{rank}"


def loss_among(metrics: Collection[str]) -> str | None:
    """Return the loss among the metrics of a run, that of its training first; None without one."""
    return next((name for name in LOSSES if name in metrics), None)


def message_metric(operation: str, dtype: str, figure: MessageFigure) -> str:
    """Return the recorded metric of a message, e.g. ``all_reduce_float32_seconds``."""
    return f"{operation}_{dtype}_{figure}"


def totals_file(metrics_file: str, rank: int | str) -> str:
    """Return the file beside a recorded job's metrics file that has the totals of a rank."""
    return f"{metrics_file}.{rank}.totals"


RUN_FILE: Final = "run.json"
"""The file in a rank's folder that holds the id of its run, once the master has told it."""
EXIT_FILE: Final = "exit.json"
"""The file in a rank's folder that says how the rank ended: ``code``, ``at`` and ``failure``."""


def own_names_file(metrics_file: str, pid: int) -> str:
    """Return the file beside a metrics file that lists, a line each, what a process records itself.

    What it writes of the same names to TensorBoard's event files is not recorded again. An empty
    line says that it states settings. A line that begins with NUL is a folder whose event files
    have the same names without a prefix.
    """
    return f"{metrics_file}.{pid}.names"


def hidden_metric(phase: Phase) -> str:
    """Return the recorded metric of a phase's total seconds in threads that do not step."""
    return f"hidden_{phase}_seconds"


def phase_metric(phase: Phase) -> str:
    """Return the recorded metric that holds a phase's total seconds, e.g. ``forward_seconds``."""
    return f"{phase}_seconds"
