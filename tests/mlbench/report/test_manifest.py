"""What of a manifest a reader is shown."""

from typing import Any

from mlbench.report.manifest import facts

_MACHINE: dict[str, Any] = {
    "ranks": [0, 1],
    "cpu_model": "AMD EPYC",
    "cpus": 2,
    "cpu_limit": 1.5,
    "bandwidth_limit": 20.0,
    "memory_bytes": 8 * 2**30,
    "gpus": ["NVIDIA H100"],
    "os": "Linux 6.1",
    "architecture": "x86_64",
    "python": "3.11.2",
    "packages": {"zlib": "1", "numpy": "2.4", "torch": "2.13.0"},
    "git": {"commit": "0123456789abcdef", "dirty": True, "root": "/code"},
}


def test_what_ran_and_on_what() -> None:
    manifest = {
        "division": "closed",
        "departures": ["its goal is 90"],
        "benchmark": "digits",
        "image": "",
        "working_dir": "/home/me",
        "seed": 0,
        "args": {"goal": "90"},
        "settings": {"device": "cpu", "compile": False, "rate": 0.1, "folder": None},
        "limits": {"num_workers": 2, "num_cpus": None},
        "machines": [_MACHINE],
        "ranks": [
            {
                "rank": 0,
                "image": "me/train@sha256:0123",
                "clock_offset_seconds": -0.002,
                "clock_uncertainty_seconds": 0.0005,
            },
            {
                "rank": 1,
                "image": None,
                "clock_offset_seconds": None,
                "clock_uncertainty_seconds": None,
            },
        ],
        "versions": {"mlbench": "0.1.0"},
    }
    assert {fact.name: fact.text for fact in facts(manifest)} == {
        "division": "closed",
        "departure": "its goal is 90",
        "task": "digits",
        "arguments": "goal=90",
        "settings": "device=cpu compile=false rate=0.1",
        "folder": "/home/me",
        "seed": "0",
        "limits": "num_workers=2",
        "image ids": "me/train@sha256:0123",
        "clocks": "within 2.5 ms of the master's",
        "ranks 0, 1": (
            "AMD EPYC; 2 cores (limit 1.5); 8.0 GiB of memory; NVIDIA H100; 20 Mbit/s at most; "
            "Linux 6.1 x86_64; Python 3.11.2; torch 2.13.0; numpy 2.4; "
            "git 0123456789ab with uncommitted changes"
        ),
        "MLBench": "0.1.0",
    }


def test_what_is_not_known_is_left_out() -> None:
    machine = dict.fromkeys(_MACHINE) | {"ranks": [3], "cpu_model": "a CPU"}
    [fact] = facts({"machines": [machine], "ranks": None, "versions": {}})
    assert (fact.name, fact.text) == ("rank 3", "a CPU")
