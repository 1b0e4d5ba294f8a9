"""The examples of the OpenAPI document, by operation. Tests send them to the application."""

from typing import Any

from mlbench.records import (
    Benchmark,
    Delivery,
    Echo,
    GitState,
    Goal,
    Health,
    Held,
    Info,
    Limits,
    LogPage,
    Machine,
    Manifest,
    Place,
    Pod,
    Point,
    Rank,
    RankOnMachine,
    Run,
    RunEvent,
    RunLimits,
    Versions,
)
from mlbench.results import (
    AccuracyAfterTime,
    Comparison,
    Cost,
    Curve,
    Difference,
    Group,
    Result,
    Summary,
    TimeToAccuracy,
    Value,
)

_PODS = ("local-mlbench-worker-0", "local-mlbench-worker-1")
_GOAL = Goal("val_global_Prec@1", 97.0)
_CREATED, _STARTED, _FINISHED = (
    "2026-03-01T09:21:29.347960Z",
    "2026-03-01T09:21:29.760112Z",
    "2026-03-01T09:21:41.012345Z",
)

_RUN = Run(
    id=1,
    name="first",
    created_at=_CREATED,
    started_at=_STARTED,
    finished_at=_FINISHED,
    state="FINISHED",
    reason="",
    waiting="",
    job_id="5ec9f286-e12d-41bc-886e-0174ef2bddae",
    benchmark="digits",
    args={"seed": "7"},
    backend="gloo",
    num_workers=2,
    num_cpus=1.0,
    seed=7,
    deadline_seconds=7200.0,
    attempt=1,
    settings={"goal": 97.0, "batch_size": 128, "device": "cpu", "compile": False},
    goal=_GOAL,
    goal_reached_at="2026-03-01T09:21:40.100000Z",
    goal_train_seconds=3.02,
    delivery=Delivery(recorded=5210, in_prometheus=5208, kept=2),
    ranks=tuple(Rank(rank, pod, exit_code=0) for rank, pod in enumerate(_PODS)),
)
_MANIFEST = Manifest(
    run_id=1,
    name="first",
    division="closed",
    departures=(),
    benchmark="digits",
    image="",
    command="",
    working_dir=None,
    args={"seed": "7"},
    run_all_nodes=True,
    backend="gloo",
    seed=7,
    settings={"goal": 97.0, "batch_size": 128, "device": "cpu", "data": "digits"},
    goal=_GOAL,
    data={"data": "digits"},
    limits=Limits(
        num_workers=2,
        num_cpus=1.0,
        max_bandwidth=None,
        gpu_enabled=False,
        light_target=False,
        max_restarts=0,
        deadline_seconds=None,
    ),
    attempts=1,
    created_at=_CREATED,
    started_at=_STARTED,
    finished_at=_FINISHED,
    versions=Versions("0.1.0"),
    machines=(
        Machine(
            ranks=(0, 1),
            hostname="laptop",
            os="Debian GNU/Linux 12 (bookworm), Linux 6.1.0-18-amd64",
            architecture="x86_64",
            cpu_model="AMD Ryzen 7 PRO 6850U with Radeon Graphics",
            cpus=16,
            memory_bytes=33_326_653_440,
            python="3.11.2",
            mlbench="0.1.0",
            packages={"mlbench": "0.1.0", "torch": "2.13.0"},
            git=GitState("3d3f0a6f4d1d0ac7a1d5f9c2b8f0b7f5a6a4c9e1", False, "/home/me/mlbench"),
        ),
    ),
    ranks=tuple(
        RankOnMachine(
            rank=rank,
            pod=pod,
            hostname="laptop",
            image=None,
            cpus=(rank,),
            clock_offset_seconds=0.00004,
            clock_uncertainty_seconds=0.0009,
        )
        for rank, pod in enumerate(_PODS)
    ),
)
_RESULT = Result(
    run_id=1,
    name="first",
    benchmark="digits",
    state="FINISHED",
    num_workers=2,
    division="closed",
    departures=(),
    target=_GOAL,
    time_to_accuracy=TimeToAccuracy(7.52, 10.31),
    accuracy_after_time=AccuracyAfterTime(3600.0, 97.33, 7.52, "training"),
    last_value=97.33,
    best_value=97.33,
    epochs=8,
    samples=11_488.0,
    training_seconds=7.53,
    wall_seconds=11.25,
    samples_per_second=1525.6,
    phases={"forward": 2.1, "backward": 3.9, "communication": 0.9, "other": 0.63},
    communication_share=0.12,
    cost=Cost(23.4, 21.6, 0.0001, 0.00234, 0.00216),
    energy_joules=None,
    curve=Curve((3.02, 10.31), (0.98, 7.52), (71.6, 97.33)),
)
_TIMES = Summary(
    count=1,
    mean=7.52,
    left_out=0,
    median=7.52,
    minimum=7.52,
    maximum=7.52,
    standard_deviation=None,
)
_GROUP = Group(
    label="2 workers",
    num_workers=2,
    run_ids=(1,),
    reached=1,
    training_seconds_to_accuracy=_TIMES,
    wall_seconds_to_accuracy=None,
    accuracy_after_time=None,
    samples_per_second=None,
    communication_share=None,
    worker_seconds=None,
    energy_joules=None,
    phases={"forward": 2.1},
    speedup=1.0,
    efficiency=1.0,
    throughput_speedup=None,
    throughput_efficiency=None,
)
_RATES = Difference(
    "learning_rate",
    "no",
    (Value("0.05", (1,)), Value("0.1", (3,))),
    "learning_rate is 0.05 in run 1 and 0.1 in run 3",
)
_SERIES = {
    "train_loss @ 0": [
        Point("2026-03-01T09:21:31.000000Z", "0.31"),
        Point("2026-03-01T09:21:32.000000Z", "0.25"),
    ]
}
_SAMPLE = Echo(
    run_id=1,
    name="accuracy",
    date="2018-08-03T09:21:44.331823Z",
    value="0.7845",
    cumulative=False,
    metadata="some additional data",
)
_COMMUNICATION = Benchmark(
    name="communication",
    description="No training: latency and bandwidth of all-reduce, …",
    goal=None,
    light_goal=None,
    has_light_target=False,
    takes_seed=False,
    takes_gpu=True,
    backends=("gloo", "nccl", "mpi"),
    rules={"seconds": (0.5,), "check": (True,)},
    images=("mlbench/pytorch-backend-benchmark",),
)
_DIGITS_LINEAR = Benchmark(
    name="digits-linear",
    description="Multinomial logistic regression on handwritten digits, …",
    goal=Goal("val_global_Prec@1", 93.0),
    light_goal=Goal("val_global_Prec@1", 85.0),
    has_light_target=True,
    takes_seed=True,
    takes_gpu=False,
    backends=("gloo", "mpi"),
    rules={"goal": (93.0, 85.0)},
    images=(),
)
_POD = Pod(
    name=_PODS[0],
    labels="{'app': 'mlbench', 'component': 'worker'}",
    phase="Running",
    ip="127.0.0.1",
    node="laptop",
    run_id=1,
    rank=0,
    state="running",
    seen_at=_STARTED,
)

ANSWERS: dict[str, Any] = {
    "list_pods": [_POD],
    "list_metrics": {"1": _SERIES},
    "add_metrics": _SAMPLE,
    "get_metrics": _SERIES,
    "list_runs": [_RUN],
    "create_run": _RUN,
    "get_run": _RUN,
    "stop_run": _RUN,
    "get_logs": LogPage(
        rank=0,
        stream="stdout",
        attempt=1,
        text="epoch 1: loss 0.31\n",
        start=0,
        offset=19,
        size=19,
        complete=True,
    ),
    "get_events": [
        RunEvent(_CREATED, "created", 0, None, "The run was ordered"),
        RunEvent(
            "2026-03-01T09:21:33.120000Z",
            "exited",
            attempt=1,
            rank=1,
            text="Rank 1 on local-mlbench-worker-1 exited with code 3",
        ),
    ],
    "get_manifest": _MANIFEST,
    "get_result": _RESULT,
    "compare_runs": Comparison("yes", (_RATES,), (_GROUP,), (_RESULT,)),
    "list_benchmarks": [_COMMUNICATION, _DIGITS_LINEAR],
    "get_info": Info(
        version="0.1.0",
        pool="local",
        workers=2,
        limits=RunLimits(workers=16, cpus=8.0, whole_cpus=True, bandwidth=None, gpus=0),
        grafana=Place("http://127.0.0.1:3000"),
        prometheus=Place("http://127.0.0.1:9090"),
    ),
    "poll": {
        "do": "wait",
        "next_poll_seconds": 0.25,
        "time": 1772356889.760112,
        "assignment": None,
    },
    "ship_stream": Held(19),
    "get_health": Health(),
    "get_readiness": Health(),
    "get_openapi": {"openapi": "3.1.0"},
}

BODIES: dict[str, dict[str, Any]] = {
    "create_run": {
        "task": {"name": "first", "benchmark": "digits", "num_workers": 2, "queue": True},
        "own_command": {
            "name": "own",
            "image_name": "custom_image",
            "custom_image_name": "me/train:1",
            "custom_image_command": "python train.py",
            "working_dir": "/home/me/project",
            "deadline_seconds": 3600,
            "queue": True,
        },
    },
    "add_metrics": {
        "one": _SAMPLE.to_fields(),
        "list": [
            {"run_id": 1, "name": "train_loss @ 0", "date": date, "value": value}
            for date, value in [("2026-03-01T09:21:31Z", 0.31), ("2026-03-01T09:21:32Z", 0.25)]
        ],
    },
    "poll": {
        "idle": {"state": "idle", "ip": "127.0.0.1"},
        "exited": {
            "state": "exited",
            "ip": "127.0.0.1",
            "run_id": 1,
            "attempt": 1,
            "rank": 0,
            "exit_code": 0,
            "exited_at": 1772356901.0,
            "sizes": {"stdout": 19, "stderr": 0, "metrics": 4096},
        },
    },
    "ship_stream": {"text": "epoch 1: loss 0.31\n"},
}
"""Of requests, by operation and a name for each."""
