"""The operations on runs."""

from typing import Any

from master.openapi.operation import Answer, Operation, Parameter, Request, Time, View
from master.openapi.parameters import WHOLE
from master.orders import RunOrder
from master.resources.runs import RunResource, RunsResource, RunStopResource
from mlbench.names import RunState
from mlbench.run_settings import Setting


class Rank(View):
    """A rank of the run's latest attempt."""

    rank: int
    pod: str
    """The worker that runs it."""
    exit_code: int | None
    """None until it has ended."""


class Goal(View):
    """What the task trains for."""

    metric: str
    value: float
    lower_is_better: bool


class Delivery(View):
    """Where the run's samples are: recorded = in_prometheus + kept."""

    recorded: int
    in_prometheus: int
    kept: int
    """What Prometheus cannot hold; the API reads these too."""


class Run(View):
    """A run."""

    id: int
    name: str
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    state: RunState
    reason: str
    """Why it failed, or was stopped at its deadline; else empty."""
    waiting: str
    """What it waits for: before it begins, between attempts, or to be counted; else empty."""
    job_id: str
    job_metadata: dict[str, Any]
    benchmark: str
    """The official task; empty where the run brought its own command."""
    args: dict[str, str]
    image: str
    command: str
    working_dir: str | None
    """The folder that the command starts in; None: the worker's own."""
    backend: str
    run_all_nodes: bool
    num_workers: int
    num_cpus: float | None
    max_bandwidth: float | None
    """Mbit/s that each worker may send; None if it is not limited."""
    gpu_enabled: bool
    light_target: bool
    seed: int | None
    deadline_seconds: float | None
    """After its start, when training shall end; None: never."""
    max_restarts: int
    attempt: int
    """0 until it starts, then 1, and one more for each restart."""
    stop_requested: bool
    settings: dict[str, Setting] | None
    """What the task runs with, as it says itself; None until it does."""
    goal: Goal | None
    goal_reached_at: Time | None
    """When a recorded value reached the goal first; None: not yet."""
    goal_train_seconds: float | None
    """Training time until then; None where it was not recorded."""
    delivery: Delivery | None
    """None until its samples are counted: by its end, or soon after it was stopped or failed."""
    ranks: list[Rank]


_RUN = {
    "id": 1,
    "name": "first",
    "created_at": "2026-03-01T09:21:29.347960Z",
    "started_at": "2026-03-01T09:21:29.760112Z",
    "finished_at": "2026-03-01T09:21:41.012345Z",
    "state": "FINISHED",
    "reason": "",
    "waiting": "",
    "job_id": "5ec9f286-e12d-41bc-886e-0174ef2bddae",
    "job_metadata": {},
    "benchmark": "digits",
    "args": {"seed": "7"},
    "image": "",
    "command": "",
    "working_dir": None,
    "backend": "gloo",
    "run_all_nodes": True,
    "num_workers": 2,
    "num_cpus": 1.0,
    "max_bandwidth": None,
    "gpu_enabled": False,
    "light_target": False,
    "seed": 7,
    "deadline_seconds": 7200.0,
    "max_restarts": 0,
    "attempt": 1,
    "stop_requested": False,
    "settings": {"goal": 97.0, "batch_size": 128, "device": "cpu", "compile": False},
    "goal": {"metric": "val_global_Prec@1", "value": 97.0, "lower_is_better": False},
    "goal_reached_at": "2026-03-01T09:21:40.100000Z",
    "goal_train_seconds": 3.02,
    "delivery": {"recorded": 5210, "in_prometheus": 5208, "kept": 2},
    "ranks": [
        {"rank": 0, "pod": "local-mlbench-worker-0", "exit_code": 0},
        {"rank": 1, "pod": "local-mlbench-worker-1", "exit_code": 0},
    ],
}

OPERATIONS = (
    Operation(
        RunsResource,
        "get",
        "/api/runs/",
        name="list_runs",
        parameters=(Parameter("from_id", WHOLE, "Only runs from this id on.", example=1),),
        answer=Answer("All runs, the oldest first.", list[Run], [_RUN]),
    ),
    Operation(
        RunsResource,
        "post",
        "/api/runs/",
        name="create_run",
        request=Request(
            RunOrder,
            {
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
            form=RunOrder,
        ),
        answer=Answer("The new run, which the controller starts.", Run, _RUN),
        errors=(409, 413),
    ),
    Operation(
        RunResource,
        "get",
        "/api/runs/{run_id}/",
        name="get_run",
        answer=Answer("The run.", Run, _RUN),
        errors=(404,),
    ),
    Operation(
        RunResource,
        "delete",
        "/api/runs/{run_id}/",
        name="delete_run",
        answer=Answer("The run is deleted.", status=204),
        errors=(404, 409),
    ),
    Operation(
        RunStopResource,
        "post",
        "/api/runs/{run_id}/stop/",
        name="stop_run",
        answer=Answer("The run, whose `stop_requested` is now true.", Run, _RUN),
        errors=(404,),
    ),
)
