"""Attributes of machine and code that an agent reports before a run starts."""

import json
import os
import platform
import shlex
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from mlbench.contract.distribution import own_version
from mlbench_worker.agent.master_client import Offset
from mlbench_worker.agent.reported_attributes import ReportedAttributes, bounded
from tests.support.assignments import ASSIGNMENT
from tests.worker.agent.conftest import git


def state(command: str, folder: Path | None, offset: Offset | None = None) -> dict[str, object]:
    assignment = replace(
        ASSIGNMENT, command=tuple(shlex.split(command)), working_dir=str(folder) if folder else None
    )
    return ReportedAttributes(os.environ).state(assignment, offset)


def test_all_known_attributes_are_reported(script: Path) -> None:
    facts = state("bash train.py", script.parent, Offset(0.25, 0.125))
    assert facts["hostname"] == platform.node()
    assert facts["python"] == platform.python_version()
    assert facts["mlbench"] == own_version()
    packages = facts["packages"]
    assert isinstance(packages, dict)
    assert packages["pytest"] == version("pytest")
    assert facts["git"] == {
        "commit": git(script.parent, "rev-parse", "HEAD"),
        "dirty": False,
        "root": str(script.parent.parent),
    }
    assert str(facts["code"]).startswith("train.py ")
    assert facts["clock_offset_seconds"] == 0.25
    assert facts["clock_uncertainty_seconds"] == 0.125


def test_unknown_attributes_are_none(tmp_path: Path) -> None:
    found = state("/no/such/python train.py", tmp_path / "gone")
    assert found["cpus"]
    for name in ("python", "git", "code", "clock_offset_seconds", "clock_uncertainty_seconds"):
        assert found[name] is None, name
    assert found["packages"] == {}


def test_reported_attributes_are_limited_in_size(tmp_path: Path) -> None:
    packages = {f"package-{number}": "1" * 5000 for number in range(1000)}
    found = bounded({"hostname": "h" * 5000, "git": {"commit": "c" * 5000}, "packages": packages})
    assert (found["hostname"], found["git"]) == ("h" * 1024, {"commit": "c" * 1024})
    assert isinstance(found["packages"], dict)
    assert 50 < len(found["packages"]) < 1000
    # The master accepts at most 64 KiB.
    assert 50_000 < len(json.dumps(found)) < 64_000
    few = {"hostname": "h", "packages": {"torch": "2"}}
    assert bounded(few) == few
