"""Whether what an archive tells agrees with itself: clocks with dates, a result with its sentence.

Who changes a figure and makes all digests anew has to change all of this alike. That is more work,
and no proof: a digest is no signature.
"""

import re
from collections.abc import Iterator

from mlbench import names
from mlbench.archive import ROWS, RUN, Archive, SeriesName

# What a clock may be off the dates of its samples: they have milliseconds, and dates are set right.
_SECONDS, _SHARE = 0.5, 0.02
_REACHED = re.compile(r" reached in ([\d.]+) seconds")


def contradictions(archive: Archive) -> list[str]:
    """Return what in an archive contradicts something else in it, a sentence each."""
    return [*_clocks(archive), *_task_results(archive)]


def _clocks(archive: Archive) -> Iterator[str]:
    """Yield the ranks whose clocks of training and evaluation did not run as the dates say."""
    [run] = archive.document(ROWS)["run"]
    if run.get("attempt") != 1 or archive.document(RUN)["result"].get("clock_faults"):
        return  # between two attempts no clock runs
    for name in archive.series:
        evaluation = SeriesName(names.phase_metric("evaluation"), name.rank)
        if name.pod or name.metric != names.TRAIN_SECONDS or evaluation not in archive.series:
            continue
        training, evaluating = _values(archive, name), _values(archive, evaluation)
        at = sorted(training.keys() & evaluating.keys())
        if len(at) > 1:
            ends = [training[us] + evaluating[us] for us in (at[0], at[-1])]
            told, passed = ends[1] - ends[0], (at[-1] - at[0]) / 1e6
            if abs(told - passed) > max(_SECONDS, _SHARE * passed):
                yield (
                    f"the clocks of rank {name.rank} tell {told:.2f} s, and the dates of its "
                    f"samples {passed:.2f} s"
                )


def _task_results(archive: Archive) -> Iterator[str]:
    """Yield where the task's own sentence tells another time to the goal than the result."""
    reached = archive.document(RUN)["result"].get("time_to_accuracy") or {}
    seconds = reached.get("training_seconds")
    texts = [
        more.text
        for name in archive.series
        if name.metric == names.TASK_RESULT
        for piece in archive.read(name)
        for more in piece.more.values()
    ]
    found = [match for text in texts if text and (match := _REACHED.search(text))]
    if found and seconds is not None:
        told = float(found[-1][1])
        if abs(told - seconds) > max(_SECONDS, _SHARE * seconds):
            yield f"the task says that it reached its goal in {told} s, its result {seconds:.3f} s"


def _values(archive: Archive, name: SeriesName) -> dict[int, float]:
    return {
        time_us: value
        for piece in archive.read(name, kept=False)
        for time_us, value in zip(piece.times_us, piece.values, strict=True)
    }
