"""The words of a report: what was compared, whether that is fair, and how to repeat a run."""

import shlex

from mlbench.contract import figures
from mlbench.contract.comparisons import Comparison, Findings
from mlbench.contract.distribution import DISTRIBUTION
from mlbench.contract.humanize import count
from mlbench.contract.masking import mask_command
from mlbench.contract.names import THIS_MACHINE
from mlbench.contract.records import Manifest, Run
from mlbench.contract.runspec import CommonSpec, options_of


def title(comparison: Comparison) -> str:
    """Return the tasks and numbers of workers, such as ``digits on 1, 2, 4 workers``."""
    tasks = dict.fromkeys(result.benchmark or "own code" for result in comparison.results)
    workers = dict.fromkeys(str(group.num_workers) for group in comparison.groups)
    unit = "worker" if [*workers] == ["1"] else "workers"
    return f"{', '.join(tasks)} on {', '.join(workers)} {unit}"


def subtitle(comparison: Comparison) -> str:
    """Return the number of runs, their targets, and their swept options."""
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


def processors(manifest: Manifest) -> str:
    """Return the models of the GPUs, or else the CPUs, that a run used; empty if unknown."""
    models = [rank.gpus[0] if rank.gpus else rank.cpu_model for rank in manifest.machines]
    return ", ".join(dict.fromkeys(filter(None, models)))


# --- How to repeat a run ---

# Stored values of options that the user did not set.
_LEFT_OUT = (None, False, 0, "", "gloo")


def commands(run: Run, manifest: Manifest, archive: str) -> tuple[str, ...]:
    """Return lines for a shell that repeat a run, and compare it with its archive."""
    order = ["mlbench", "run", *filter(None, [run.benchmark]), "--workers", str(run.num_workers)]
    for name, option in options_of(CommonSpec).items():
        value = getattr(run, name)
        if option.flag and value not in _LEFT_OUT:
            order.append(option.flag)
            if value is not True:
                order.append(value if isinstance(value, str) else f"{value:.15g}")
    # An order without a seed has the task's own.
    reported_seed = (manifest.settings or {}).get("seed") if run.benchmark else None
    seed = reported_seed if run.seed is None and isinstance(reported_seed, int) else run.seed
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
