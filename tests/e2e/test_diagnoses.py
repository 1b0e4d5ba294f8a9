"""Hang diagnosis in unprivileged pods names the rank at fault and its line."""

import time

from tests.e2e.commands import wait_until
from tests.e2e.release import WORKERS, Release

_LATE_STEP = 20
_LONGER_THAN_STEPS = 10.0  # a rank counts as hung only after the time of several steps
_TRAIN = f"""
import time, torch, torch.distributed as dist
from mlbench import Tracker

def load_batch(step):
    if dist.get_rank() == 1 and step == {_LATE_STEP}:
        time.sleep(1000)

dist.init_process_group("gloo")
with Tracker() as t:
    for step in range(1000):
        load_batch(step)
        dist.all_reduce(torch.ones(10))
        t.step(samples=1, reached=step)
"""


def test_a_hang_in_pods_names_the_rank_and_its_line(release: Release) -> None:
    run = release.order_image("hangs", "worker", f"python3 -c '{_TRAIN}'", WORKERS)
    release.wait_until_recorded(run, "reached @ 0", _LATE_STEP - 1)
    client = release.client
    time.sleep(_LONGER_THAN_STEPS)
    client.ask_diagnosis(run.id).result()
    diagnosis = wait_until(
        lambda: client.get_diagnosis(run.id).result().value,
        lambda a: a.done,
        60,
        "evidence of all ranks",
    )
    client.stop_run(run.id).result()
    assert release.wait_for_end(run).state == "STOPPED"
    assert (diagnosis.verdict.kind, diagnosis.verdict.at_fault) == ("not_in_collective", (1,)), (
        diagnosis
    )
    assert "rank 1 is at `load_batch` (<string>:7)" in diagnosis.verdict.sentence
    assert [evidence.rank for evidence in diagnosis.evidence] == [*range(WORKERS)]
