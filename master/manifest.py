"""The manifest of a run: all that its result depends on, as far as it was ordered or stated."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from master.machine import Machine
from master.models import Rank, Run
from master.results.division import division, rule_violations
from master.times import seconds_to_text


def build(run: Run) -> dict[str, Any]:
    """Return the manifest as the API shows it, of the run's latest attempt.

    ``machines`` has equal ones once, with the ranks on them; none before a rank has stated its own.
    """
    found = Rank.select().where(Rank.run == run, Rank.attempt == run.attempt)
    ranks = list(found.order_by(Rank.rank))
    machines = _machines(ranks)
    settings = run.settings or {}
    return {
        "run_id": run.id,
        "name": run.name,
        "division": division(run),
        "departures": rule_violations(run, machines),
        "benchmark": run.benchmark,
        "image": run.image,
        "command": run.command,
        "working_dir": run.working_dir,
        "args": run.args,
        "run_all_nodes": run.run_all_nodes,
        "backend": run.backend,
        "seed": run.seed,
        "settings": run.settings,
        "goal": run.goal,
        "data": {name: value for name, value in settings.items() if name.startswith("data")},
        "limits": {
            "num_workers": run.num_workers,
            "num_cpus": run.num_cpus,
            "max_bandwidth": run.max_bandwidth,
            "gpu_enabled": run.gpu_enabled,
            "light_target": run.light_target,
            "max_restarts": run.max_restarts,
            "deadline_seconds": run.deadline_seconds,
        },
        "attempts": run.attempt,
        "created_at": seconds_to_text(run.created_at),
        "started_at": seconds_to_text(run.started_at),
        "finished_at": seconds_to_text(run.finished_at),
        "versions": {"mlbench": version("mlbench")},
        "machines": machines,
        "ranks": [_describe(rank, rank.machine or {}) for rank in ranks],
    }


def _machines(ranks: Sequence[Rank]) -> list[dict[str, Any]]:
    """Return the machines that were stated, those that differ in nothing but their name as one."""
    groups: dict[str, dict[str, Any]] = {}
    for rank in ranks:
        if rank.machine is None:
            continue
        facts = {name: rank.machine.get(name) for name in Machine.model_fields}
        kind = json.dumps({**facts, "hostname": None}, sort_keys=True)
        group = groups.setdefault(kind, {"ranks": [], **facts})
        group["ranks"].append(rank.rank)
        if group["hostname"] != facts["hostname"]:
            group["hostname"] = None
    return list(groups.values())


def _describe(rank: Rank, machine: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "pod": rank.worker,
        "hostname": machine.get("hostname"),
        "image": rank.image,
        "cpus": rank.assignment.get("cpus", []),
        "clock_offset_seconds": machine.get("clock_offset_seconds"),
        "clock_uncertainty_seconds": machine.get("clock_uncertainty_seconds"),
    }
