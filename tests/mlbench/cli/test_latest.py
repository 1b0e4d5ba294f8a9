"""The last values of a run's series."""

from mlbench.cli.latest import latest, latest_count, samples_per_second
from mlbench.client import Point, Series


def points(*values: str) -> list[Point]:
    return [Point("2018-08-03T09:21:29.347000Z", value) for value in values]


def test_the_first_rank_speaks_for_all() -> None:
    series: Series = {"loss @ 10": points("3"), "loss @ 2": points("1", "2"), "lossy": points("9")}
    assert latest(series, "loss") == 2.0
    assert latest(series, "nothing") is None


def test_texts_are_passed_over() -> None:
    assert latest({"loss @ 0": points("1", "a text")}, "loss") == 1.0
    assert latest({"loss @ 0": points("a text"), "loss @ 1": points("5")}, "loss") == 5.0


def test_a_count_is_whole_and_finite() -> None:
    assert latest_count({"epoch @ 0": points("2.0")}, "epoch") == 2
    assert latest_count({"epoch @ 0": points("NaN")}, "epoch") is None


def test_throughput_is_the_samples_of_all_by_the_mean_of_their_times() -> None:
    series: Series = {
        "samples @ 0": points("100", "600"),
        "samples @ 1": points("600"),
        "train_seconds @ 0": points("5"),
        "train_seconds @ 1": points("7"),
    }
    assert samples_per_second(series) == 200.0
    del series["train_seconds @ 0"], series["train_seconds @ 1"]
    assert samples_per_second(series) is None
