"""The words of a report: what was compared, whether that is fair, where and how it ran."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mlbench.benchmarks.task_options import in_use
from mlbench.contract.comparisons import Comparison, Findings
from mlbench.contract.distribution import DISTRIBUTION
from mlbench.contract.humanize import count, numbered
from mlbench.contract.masking import mask_command
from mlbench.contract.names import THIS_MACHINE
from mlbench.contract.records import Machine, Manifest, Run
from mlbench.contract.runspec import IMPAIRMENTS, CommonSpec, NetworkOptions, options_of
from mlbench.report import figures

_OWN_CODE = "own code"
# Of all installed packages, those that a training run depends on.
_PACKAGES = ("torch", "numpy", "tensorflow", "jax", "mxnet")


def title(comparison: Comparison) -> str:
    """Return the tasks and numbers of workers, such as ``digits on 1, 2, 4 workers``."""
    tasks = dict.fromkeys(result.benchmark or _OWN_CODE for result in comparison.results)
    workers = dict.fromkeys(str(group.num_workers) for group in comparison.groups)
    unit = "worker" if [*workers] == ["1"] else "workers"
    return f"{', '.join(tasks)} on {', '.join(workers)} {unit}"


def subtitle(comparison: Comparison) -> str:
    """Return the number of runs, their targets, and what they sweep."""
    targets = dict.fromkeys(
        figures.target(result.target) for result in comparison.results if result.target
    )
    aim = f"target: {', '.join(targets)}" if targets else "no target"
    swept = ", ".join(comparison.groups[0].swept)
    runs = f"{count(len(comparison.results), 'run')}, {aim}"
    return f"{runs}, swept: {swept}" if swept else runs


def lists(findings: Findings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what follows the sentence: lists that are not empty, each with a heading, or none."""
    every = (
        ("", (*findings.reasons, *findings.notes, *findings.clock_faults)),
        ("Disturbed, so their results may be distorted:", findings.disturbed),
        ("Rule violations:", findings.rule_violations),
        ("What is learned may differ by:", findings.learning),
        ("What else differs:", findings.differences),
    )
    return tuple((heading, texts) for heading, texts in every if texts)


# --- The facts of a run's manifest ---


@dataclass(frozen=True)
class Attribute:
    """A line of a report."""

    name: str
    text: str


def facts(manifest: Manifest) -> tuple[Attribute, ...]:
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
        Attribute("division", manifest.division),
        *(Attribute("violation", text) for text in manifest.rule_violations),
        Attribute("task", manifest.benchmark),
        Attribute("command", mask_command(manifest.command)),
        Attribute("started by", manifest.launcher),
        Attribute("folder", manifest.working_dir or ""),
        Attribute("image", manifest.image),
        Attribute("arguments", _pairs(manifest.args)),
        Attribute("settings", _pairs(in_use(manifest.settings or {}))),
        Attribute("seed", "" if manifest.seed is None else str(manifest.seed)),
        Attribute("backend", manifest.backend),
        Attribute("limits", _pairs({"num_workers": 0} | asdict(manifest.limits))),
        Attribute("image ids", ", ".join(sorted({rank.image for rank in ranks if rank.image}))),
        Attribute("cores", "; ".join(bound) or ("bound to none" if ranks else "")),
        Attribute("clocks", clocks),
        Attribute("not recorded", manifest.not_recorded.text if manifest.not_recorded else ""),
        *(Attribute(numbered("rank", one.ranks), machine_text(one)) for one in manifest.machines),
        Attribute("MLBench", manifest.versions.mlbench),
    ]
    return tuple(fact for fact in stated_facts if fact.text)


def machine_text(machine: Machine) -> str:
    """Return a machine in words: its processors, memory, system and packages."""
    return "; ".join(_machine_parts(machine))


def _machine_parts(machine: Machine) -> Iterator[str]:
    if machine.cpu_model:
        yield machine.cpu_model
    yield from (f"{name.replace('_', ' ')} {fact}" for name, fact in machine.processor.items())
    if machine.cpus:
        limit = machine.cpu_limit
        yield count(machine.cpus, "core") + (f" (limit {limit:g})" if limit else "")
    if machine.memory_bytes:
        yield f"{machine.memory_bytes / 2**30:.1f} GiB of memory"
    yield from machine.gpus
    if machine.bandwidth_limit:
        yield f"{machine.bandwidth_limit:g} Mbit/s at most, but for 3 kB at once"
    for name in IMPAIRMENTS:
        if value := getattr(machine, name):
            yield f"{value:g} {options_of(NetworkOptions)[name].unit_in_words}"
    if machine.os:
        yield f"{machine.os} {machine.architecture or ''}".strip()
    if machine.python:
        yield f"Python {machine.python}"
    packages = machine.packages
    yield from (f"{name} {packages[name]}" for name in _PACKAGES if name in packages)
    if machine.git:
        changed = " with uncommitted changes" if machine.git.dirty else ""
        yield f"git {machine.git.commit[:12]}{changed}"


def _pairs(values: Mapping[str, Any]) -> str:
    return figures.pairs({name: value for name, value in values.items() if value not in (None, "")})


# --- How to repeat a run ---

# What an option that was not given is stored as.
_LEFT_OUT = (None, False, 0, "", "gloo")


def commands(run: Run, manifest: Manifest, archive: str) -> tuple[str, ...]:
    """Return lines for a shell that repeat a run, and look at it beside its archive."""
    order = ["mlbench", "run", *filter(None, [run.benchmark]), "--workers", str(run.num_workers)]
    for name, option in options_of(CommonSpec).items():
        value = getattr(run, name)
        if option.flag and value not in _LEFT_OUT:
            order.append(option.flag)
            if value is not True:
                order.append(value if isinstance(value, str) else f"{value:.15g}")
    # An order without a seed has the task's own.
    stated = (manifest.settings or {}).get("seed") if run.benchmark else None
    seed = stated if run.seed is None and isinstance(stated, int) else run.seed
    if seed is not None:
        order += ["--seed", str(seed)]
    for key, text in run.args.items():
        order += ["--set", f"{key}={text}"]
    if not run.benchmark:
        command = shlex.split(mask_command(run.command))
        order += ["--image", run.image or THIS_MACHINE, "--", *command]
    git = next((machine.git for machine in manifest.machines if machine.git), None)
    return (
        shlex.join(["pip", "install", f"{DISTRIBUTION}[local]=={manifest.versions.mlbench}"]),
        f"mlbench up --detach --workers {run.num_workers}",
        *([shlex.join(["git", "checkout", git.commit])] if git and not run.benchmark else []),
        shlex.join(order),
        shlex.join(["mlbench", "verify", archive]),
        shlex.join(["mlbench", "import", archive]),
    )
