"""Detection of CPU contention: runs that share cores with a busy program, and runs that do not."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks.measure import Figure, alternate
from benchmarks.stacks import local_stack, run_to_end
from mlbench_worker.agent.kernel import Kernel

_TIMES = 10
_HOG = "benchhog"
# Some seconds of training without reaching the target, and as long of sleeping between steps.
_TRAINS = ("digits", {"epochs": "20", "learning_rate": "1e-6"})
_SLEEPS = ("steps", {"steps": "50", "rate": "10"})


def measure(folder: Path) -> Iterator[Figure]:
    """Yield how often runs were marked, how long they waited, and the cost of a reading."""
    kernel = Kernel("", os.sched_getaffinity(0))

    def look() -> float:
        began = time.thread_time()
        kernel.read()
        return (time.thread_time() - began) * 1000

    name = "CPU time of one look of an agent at the kernel's counts"
    yield from alternate(20, "ms", {name: look})
    kernel.gpus.close()
    with local_stack(folder) as (_, client):
        for situation, (task, args), hogged in (
            ("trains beside a hog", _TRAINS, True),
            ("sleeps beside a hog", _SLEEPS, True),
            ("trains alone", _TRAINS, False),
        ):
            results = []
            for _ in range(_TIMES):
                with hog(folder) if hogged else nullcontext():
                    run = run_to_end(
                        client, 2, num_cpus=1, look_seconds=2.0, benchmark=task, args=args
                    )
                results.append(client.get_result(run.id).result().value)
            assert all(result.interferences for result in results), "nothing was measured"
            marked = [bool(result.disturbed) for result in results]
            yield Figure(f"a run that {situation}: marked", "", marked)
            if hogged and task == _TRAINS[0]:
                named = [any(_HOG in text for text in result.disturbed) for result in results]
                yield Figure("its mark names the hog", "", named)
            shares = [result.contention_share or 0.0 for result in results]
            waited = [100 * share for share in shares]
            yield Figure("  its rank that waited most did so", "%", waited)
            durations = [result.training_seconds or 0.0 for result in results]
            yield Figure("  its training time", "s", durations)
            # The same, however busy the machine is, if the waiting is measured rightly.
            undisturbed = [s * (1 - share) for s, share in zip(durations, shares, strict=True)]
            yield Figure("  less what it waited", "s", undisturbed)


@contextmanager
def hog(folder: Path) -> Iterator[None]:
    """Keep one core busy with a process that has a known name."""
    program = folder / _HOG
    if not program.exists():
        program.symlink_to("/bin/sh")
    core = str(max(os.sched_getaffinity(0)))
    with subprocess.Popen(["taskset", "-c", core, program, "-c", "while :; do :; done"]) as hog:
        try:
            yield
        finally:
            hog.kill()
