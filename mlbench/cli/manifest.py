"""``mlbench manifest``: what a run ran, and on which machines."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mlbench.benchmarks.task_options import in_use
from mlbench.cli.common import JsonOption, RunArgument, open_run, print_json, print_pairs
from mlbench.contract import figures
from mlbench.contract.humanize import count, numbered
from mlbench.contract.masking import mask_command
from mlbench.contract.records import Machine, Manifest
from mlbench.contract.runspec import IMPAIRMENTS, NetworkOptions, options_of

# Packages that a training run depends on; others are not shown.
_PACKAGES = ("torch", "numpy", "tensorflow", "jax", "mxnet")


def manifest(run_name: RunArgument, json: JsonOption = False) -> None:
    """Show the code, settings and machines of a run."""
    with open_run(run_name) as (client, run):
        document = client.get_manifest(run.id).result().value
    if json:
        print_json(document.fields)
        return
    print_pairs(facts(document))


def facts(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    """Return what a run ran, and on which machines; facts that are not known are left out."""
    ranks = manifest.ranks
    offsets = [
        abs(rank.clock_offset_seconds) + (rank.clock_uncertainty_seconds or 0.0)
        for rank in ranks
        if rank.clock_offset_seconds is not None
    ]
    clocks = f"within {max(offsets) * 1000:.1f} ms of the master's" if offsets else ""
    bound = [f"rank {rank.rank} on {', '.join(map(str, rank.cpus))}" for rank in ranks if rank.cpus]
    stated_facts = [
        ("division", manifest.division),
        *(("violation", text) for text in manifest.rule_violations),
        ("task", manifest.benchmark),
        ("command", mask_command(manifest.command)),
        ("started by", manifest.launcher),
        ("folder", manifest.working_dir or ""),
        ("image", manifest.image),
        ("arguments", _pairs(manifest.args)),
        ("settings", _pairs(in_use(manifest.settings or {}))),
        ("seed", "" if manifest.seed is None else str(manifest.seed)),
        ("backend", manifest.backend),
        ("limits", _pairs({"num_workers": 0} | asdict(manifest.limits))),
        ("image ids", ", ".join(sorted({rank.image for rank in ranks if rank.image}))),
        ("cores", "; ".join(bound) or ("bound to none" if ranks else "")),
        ("clocks", clocks),
        ("not recorded", manifest.not_recorded.text if manifest.not_recorded else ""),
        *(
            (numbered("rank", machine.ranks), machine_text(machine))
            for machine in manifest.machines
        ),
        ("MLBench", manifest.versions.mlbench),
    ]
    return tuple((name, text) for name, text in stated_facts if text)


def machine_text(machine: Machine) -> str:
    """Return a machine in words: its processors, memory, system and packages."""
    parts = [machine.cpu_model] if machine.cpu_model else []
    parts += [f"{name.replace('_', ' ')} {fact}" for name, fact in machine.processor.items()]
    if machine.cpus:
        limit = machine.cpu_limit
        parts.append(count(machine.cpus, "core") + (f" (limit {limit:g})" if limit else ""))
    if machine.memory_bytes:
        parts.append(f"{machine.memory_bytes / 2**30:.1f} GiB of memory")
    parts += machine.gpus
    if machine.bandwidth_limit:
        parts.append(f"{machine.bandwidth_limit:g} Mbit/s at most, but for 3 kB at once")
    for name in IMPAIRMENTS:
        if value := getattr(machine, name):
            parts.append(f"{value:g} {options_of(NetworkOptions)[name].unit_in_words}")
    if machine.os:
        parts.append(f"{machine.os} {machine.architecture or ''}".strip())
    if machine.python:
        parts.append(f"Python {machine.python}")
    packages = machine.packages
    parts += [f"{name} {packages[name]}" for name in _PACKAGES if name in packages]
    if machine.git:
        changed = " with uncommitted changes" if machine.git.dirty else ""
        parts.append(f"git {machine.git.commit[:12]}{changed}")
    if machine.code:
        parts.append(f"code {machine.code}")
    return "; ".join(parts)


def _pairs(values: Mapping[str, Any]) -> str:
    return figures.pairs({name: value for name, value in values.items() if value not in (None, "")})
