"""The facts of a run's manifest that a reader wants: what ran, on which machines."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlbench.report import figures

# Of all that is installed, what a training run stands on.
_PACKAGES = ("torch", "numpy", "tensorflow", "jax", "mxnet")


@dataclass(frozen=True)
class Fact:
    """A line of a report."""

    name: str
    text: str


def facts(manifest: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Return what a run ran, and on what; facts that the manifest does not state are left out."""
    found = [
        Fact("division", manifest.get("division") or ""),
        *(Fact("departure", text) for text in manifest.get("departures") or ()),
        Fact("task", manifest.get("benchmark") or ""),
        Fact("command", manifest.get("command") or ""),
        Fact("folder", manifest.get("working_dir") or ""),
        Fact("image", manifest.get("image") or ""),
        Fact("arguments", _pairs(manifest.get("args") or {})),
        Fact("settings", _pairs(manifest.get("settings") or {})),
        Fact("seed", "" if manifest.get("seed") is None else str(manifest["seed"])),
        Fact("backend", manifest.get("backend") or ""),
        Fact("limits", _pairs(manifest.get("limits") or {})),
        Fact("image ids", _image_ids(manifest.get("ranks") or [])),
        Fact("clocks", _clocks(manifest.get("ranks") or [])),
        *(_machine_fact(machine) for machine in manifest.get("machines") or []),
        Fact("MLBench", (manifest.get("versions") or {}).get("mlbench") or ""),
    ]
    return tuple(fact for fact in found if fact.text)


def _machine_fact(machine: Mapping[str, Any]) -> Fact:
    ranks = machine.get("ranks") or []
    name = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
    return Fact(name, "; ".join(_machine(machine)))


def _machine(machine: Mapping[str, Any]) -> Iterable[str]:
    """Return what a machine is, part by part."""
    if machine.get("cpu_model"):
        yield str(machine["cpu_model"])
    if machine.get("cpus"):
        limit = machine.get("cpu_limit")
        yield f"{machine['cpus']} cores" + (f" (limit {limit:g})" if limit else "")
    if machine.get("memory_bytes"):
        yield figures.bytes_of_memory(machine["memory_bytes"]) + " of memory"
    yield from machine.get("gpus") or ()
    if machine.get("bandwidth_limit"):
        yield f"{machine['bandwidth_limit']:g} Mbit/s at most"
    if machine.get("os"):
        yield f"{machine['os']} {machine.get('architecture') or ''}".strip()
    if machine.get("python"):
        yield f"Python {machine['python']}"
    packages = machine.get("packages") or {}
    yield from (f"{name} {packages[name]}" for name in _PACKAGES if name in packages)
    git = machine.get("git")
    if git:
        yield f"git {git['commit'][:12]}" + (" with uncommitted changes" if git["dirty"] else "")


def _image_ids(ranks: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(sorted({rank["image"] for rank in ranks if rank.get("image")}))


def _clocks(ranks: Iterable[Mapping[str, Any]]) -> str:
    offsets = [
        abs(rank["clock_offset_seconds"]) + (rank.get("clock_uncertainty_seconds") or 0.0)
        for rank in ranks
        if rank.get("clock_offset_seconds") is not None
    ]
    return f"within {max(offsets) * 1000:.1f} ms of the master's" if offsets else ""


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in values.items()
        if value not in (None, "")
    )
