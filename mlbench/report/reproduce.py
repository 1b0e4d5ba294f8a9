"""How to repeat a run: the commands that install and order the same, and check its archive."""

import shlex
from collections.abc import Iterator

from mlbench.contract.distribution import DISTRIBUTION
from mlbench.contract.masking import mask_command
from mlbench.contract.names import THIS_MACHINE
from mlbench.contract.records import Manifest, Run
from mlbench.contract.runspec import CommonSpec, options_of

# What an option that was not given is stored as.
_LEFT_OUT = (None, False, 0, "", "gloo")


def commands(run: Run, manifest: Manifest, archive: str) -> tuple[str, ...]:
    """Return lines for a shell that repeat a run, and look at it beside its archive."""
    git = next((machine.git for machine in manifest.machines if machine.git), None)
    return (
        shlex.join(["pip", "install", f"{DISTRIBUTION}[local]=={manifest.versions.mlbench}"]),
        f"mlbench up --detach --workers {run.num_workers}",
        *([shlex.join(["git", "checkout", git.commit])] if git and not run.benchmark else []),
        shlex.join(["mlbench", "run", *_order(run, manifest)]),
        shlex.join(["mlbench", "verify", archive]),
        shlex.join(["mlbench", "import", archive]),
    )


def _order(run: Run, manifest: Manifest) -> Iterator[str]:
    """Yield the arguments of `mlbench run` that order the same run."""
    # An order without a seed has the task's own.
    stated = (manifest.settings or {}).get("seed") if run.benchmark else None
    seed = stated if run.seed is None and isinstance(stated, int) else run.seed
    if run.benchmark:
        yield run.benchmark
    yield from ("--workers", str(run.num_workers))
    for name, option in options_of(CommonSpec).items():
        value = getattr(run, name)
        if option.flag and value not in _LEFT_OUT:
            yield option.flag
            if value is not True:
                yield value if isinstance(value, str) else f"{value:.15g}"
    if seed is not None:
        yield from ("--seed", str(seed))
    for key, text in run.args.items():
        yield from ("--set", f"{key}={text}")
    if not run.benchmark:
        yield from (
            "--image",
            run.image or THIS_MACHINE,
            "--",
            *shlex.split(mask_command(run.command)),
        )
