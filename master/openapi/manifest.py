"""The operation on a run's manifest."""

from master.machine import Machine
from master.openapi.operation import Answer, Operation, Time, View
from master.openapi.runs import Goal
from master.resources.manifest import ManifestResource
from mlbench.results import Division
from mlbench.run_settings import Setting


class Limits(View):
    """What the run was given, and how far it may go."""

    num_workers: int
    num_cpus: float | None
    """Cores of each worker; None if they are not limited."""
    max_bandwidth: float | None
    """Mbit/s that each worker may send; None if it is not limited."""
    gpu_enabled: bool
    light_target: bool
    max_restarts: int
    deadline_seconds: float | None


class Versions(View):
    """What keeps the run now; what it ran with is told of each machine."""

    mlbench: str
    """The master's."""


class MachineOfRanks(Machine):
    """A machine, or several that differ in nothing but their `hostname`, which is None then."""

    ranks: list[int]


class RankOnMachine(View):
    """Where a rank ran."""

    rank: int
    pod: str
    hostname: str | None
    image: str | None
    """The image that its pod ran, with its digest; None where it ran none."""
    cpus: list[int]
    """The cores that it was bound to; empty if it was to none."""
    clock_offset_seconds: float | None
    """By how much the worker's clock was ahead of the master's when the rank was started."""
    clock_uncertainty_seconds: float | None
    """The offset is right to within this: half the shortest round trip."""


class Manifest(View):
    """What a run's result depends on."""

    run_id: int
    name: str
    division: Division
    """Closed for an official task, open for a command of one's own."""
    departures: list[str]
    """Where a run of the closed division leaves the rules of its task, a sentence each."""
    benchmark: str
    image: str
    command: str
    working_dir: str | None
    args: dict[str, str]
    run_all_nodes: bool
    backend: str
    seed: int | None
    settings: dict[str, Setting] | None
    """What the task ran with, as it says itself; None until it does."""
    goal: Goal | None
    data: dict[str, Setting]
    """The settings that say what it was trained on: all whose names begin with `data`."""
    limits: Limits
    attempts: int
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    versions: Versions
    machines: list[MachineOfRanks]
    """Of the latest attempt; empty until its ranks have started."""
    ranks: list[RankOnMachine]


_EXAMPLE = {
    "run_id": 1,
    "name": "first",
    "division": "closed",
    "departures": [],
    "benchmark": "digits",
    "image": "",
    "command": "",
    "working_dir": None,
    "args": {"seed": "7"},
    "run_all_nodes": True,
    "backend": "gloo",
    "seed": 7,
    "settings": {"goal": 97.0, "batch_size": 128, "device": "cpu", "data": "digits"},
    "goal": {"metric": "val_global_Prec@1", "value": 97.0, "lower_is_better": False},
    "data": {"data": "digits"},
    "limits": {
        "num_workers": 2,
        "num_cpus": 1.0,
        "max_bandwidth": None,
        "gpu_enabled": False,
        "light_target": False,
        "max_restarts": 0,
        "deadline_seconds": None,
    },
    "attempts": 1,
    "created_at": "2026-03-01T09:21:29.347960Z",
    "started_at": "2026-03-01T09:21:29.760112Z",
    "finished_at": "2026-03-01T09:21:41.012345Z",
    "versions": {"mlbench": "0.1.0"},
    "machines": [
        {
            "ranks": [0, 1],
            "hostname": "laptop",
            "os": "Debian GNU/Linux 12 (bookworm), Linux 6.1.0-18-amd64",
            "architecture": "x86_64",
            "cpu_model": "AMD Ryzen 7 PRO 6850U with Radeon Graphics",
            "cpus": 16,
            "cpu_limit": None,
            "bandwidth_limit": None,
            "memory_bytes": 33_326_653_440,
            "memory_limit_bytes": None,
            "gpus": [],
            "gpu_driver": None,
            "python": "3.11.2",
            "mlbench": "0.1.0",
            "packages": {"mlbench": "0.1.0", "torch": "2.13.0"},
            "git": {
                "commit": "3d3f0a6f4d1d0ac7a1d5f9c2b8f0b7f5a6a4c9e1",
                "dirty": False,
                "root": "/home/me/mlbench",
            },
        }
    ],
    "ranks": [
        {
            "rank": rank,
            "pod": f"local-mlbench-worker-{rank}",
            "hostname": "laptop",
            "image": None,
            "cpus": [rank],
            "clock_offset_seconds": 0.00004,
            "clock_uncertainty_seconds": 0.0009,
        }
        for rank in (0, 1)
    ],
}

OPERATIONS = (
    Operation(
        ManifestResource,
        "get",
        "/api/runs/{run_id}/manifest/",
        name="get_manifest",
        answer=Answer("The manifest.", Manifest, _EXAMPLE),
        errors=(404,),
    ),
)
