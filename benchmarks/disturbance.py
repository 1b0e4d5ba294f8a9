"""Whether a hog beside a run is found and named, ten times of ten, and a quiet run left alone."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks.measure import Figure, repeat
from mlbench import ApiClient
from mlbench.home import Home
from mlbench.results import Result
from mlbench.stack import launch
from mlbench_worker.agent.kernel import Kernel

_TIMES = 10
_HOG = "benchhog"
# Some seconds of training without reaching the goal, and as long of sleeping between steps.
_TRAINS = ("digits", {"epochs": "20", "learning_rate": "1e-6"})
_SLEEPS = ("steps", {"steps": "50", "rate": "10"})


def measure(folder: Path) -> Iterator[Figure]:
    """Yield how often runs were marked, how long they waited, and what a look costs."""
    kernel = Kernel(0, os.sched_getaffinity(0))

    def look() -> float:
        began = time.thread_time()
        kernel.read()
        return (time.thread_time() - began) * 1000

    yield repeat("CPU time of one look of an agent at the kernel's counts", "ms", 20, look)
    kernel.gpus.close()
    home = Home(folder / "home")
    launch.start_detached(home, workers=2, port=None)
    try:
        with ApiClient.from_home(home) as client:
            for what, (task, args), hogged in (
                ("trains beside a hog", _TRAINS, True),
                ("sleeps beside a hog", _SLEEPS, True),
                ("trains alone", _TRAINS, False),
            ):
                results = [_run(client, folder, task, args, hogged) for _ in range(_TIMES)]
                yield Figure(f"a run that {what}: marked", "", [_is_marked(one) for one in results])
                if hogged and task == _TRAINS[0]:
                    named = [any(_HOG in text for text in one.disturbed) for one in results]
                    yield Figure("its mark names the hog", "", named)
                waited = [one.waiting_share or 0.0 for one in results]
                shares = [100 * share for share in waited]
                yield Figure("  its rank that waited most did so", "%", shares)
                took = [one.training_seconds or 0.0 for one in results]
                yield Figure("  its training time", "s", took)
                # The same, however busy the machine is, if the waiting is measured rightly.
                left = [s * (1 - share) for s, share in zip(took, waited, strict=True)]
                yield Figure("  less what it waited", "s", left)
    finally:
        launch.stop(home)


def _is_marked(result: Result) -> bool:
    assert result.disturbances, "nothing was measured"
    return bool(result.disturbed)


def _run(client: ApiClient, folder: Path, task: str, args: dict[str, str], hogged: bool) -> Result:
    with _hog(folder) if hogged else nullcontext():
        ordered = client.create_run("disturbed", 2, num_cpus=1, benchmark=task, args=args)
        run = ordered.result().value
        while run.active:
            # Asking takes time from who trains.
            time.sleep(2.0)
            run = client.get_run(run.id).result().value
    assert run.state == "FINISHED", run.reason
    return client.get_result(run.id).result().value


@contextmanager
def _hog(folder: Path) -> Iterator[None]:
    """Keep one core busy with a process of a name of its own."""
    program = folder / _HOG
    if not program.exists():
        program.symlink_to("/bin/sh")
    core = str(max(os.sched_getaffinity(0)))
    with subprocess.Popen(["taskset", "-c", core, program, "-c", "while :; do :; done"]) as hog:
        try:
            yield
        finally:
            hog.kill()
