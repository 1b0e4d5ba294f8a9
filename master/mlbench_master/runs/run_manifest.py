"""The manifest of a run: everything that its result depends on, as requested or reported."""

import json
from collections.abc import Sequence
from dataclasses import replace

from mlbench.contract.distribution import own_version
from mlbench.contract.records import Limits, Machine, Manifest, RankOnMachine, Versions
from mlbench.evaluation.official_rules import division, rule_violations
from mlbench_master.database.models import Rank, Run
from mlbench_master.runs import presenters


def build(run: Run) -> Manifest:
    """Return the manifest of the latest attempt.

    ``machines`` lists equal machines once, with their ranks; empty before the first report.
    """
    rows = Rank.select().where(Rank.run == run, Rank.attempt == run.attempt)
    ranks = list(rows.order_by(Rank.rank))
    row, machines = run.row, [rank.row.machine for rank in ranks if rank.row.machine]
    settings = run.settings or {}
    others = {
        "run_id": run.id,
        "division": division(row),
        "rule_violations": tuple(rule_violations(row, machines)),
        "data": {name: value for name, value in settings.items() if name.startswith("data")},
        "limits": Limits(**presenters.run_columns_of(run, Limits)),
        "attempts": run.attempt,
        "versions": Versions(mlbench=own_version()),
        "machines": _machines(ranks),
        "ranks": tuple(
            RankOnMachine(
                rank=rank.rank,
                pod=rank.worker,
                hostname=(machine := rank.machine or {}).get("hostname"),
                image=rank.image,
                cpus=tuple(rank.assignment.get("cpus", ())),
                clock_offset_seconds=machine.get("clock_offset_seconds"),
                clock_uncertainty_seconds=machine.get("clock_uncertainty_seconds"),
                is_forked=machine.get("is_forked", False),
            )
            for rank in ranks
        ),
    }
    return Manifest(**presenters.run_columns_of(run, Manifest) | others)


def _machines(ranks: Sequence[Rank]) -> tuple[Machine, ...]:
    """Return the reported machines, with machines that differ only in name merged."""
    groups: dict[str, Machine] = {}
    for rank in ranks:
        if rank.machine is None:
            continue
        machine = replace(Machine.from_fields(rank.machine), ranks=(rank.rank,))
        alike = replace(machine, ranks=(), hostname=None)
        kind = json.dumps(alike.to_fields(), sort_keys=True)
        group = groups.setdefault(kind, machine)
        if group is not machine:
            hostname = group.hostname if group.hostname == machine.hostname else None
            groups[kind] = replace(group, ranks=group.ranks + machine.ranks, hostname=hostname)
    return tuple(groups.values())
