"""Plans: which samples go to Prometheus and which are kept, without either."""

import math
import re
from pathlib import Path

from mlbench.contract.series import SeriesKey
from mlbench_master.recording.plan import FUTURE_MS, PAST_MS, Plan, plan
from mlbench_master.recording.samples import Sample

NOW_MS = 1_763_683_200_000


def sample(ms: float, value: float | str = 1.0, metric: str = "a", rank: str = "0") -> Sample:
    return Sample(metric, rank, round(ms * 1000), value)


def sent(found: Plan) -> dict[SeriesKey, list[tuple[int, float | str]]]:
    return {key: [(s.time_us // 1000, s.value) for s in some] for key, some in found.send.items()}


def test_samples_in_order_are_all_sent_by_series() -> None:
    samples = [sample(NOW_MS), sample(NOW_MS, 2.0, "b"), sample(NOW_MS + 1, 3.0)]
    found = plan([*samples, sample(NOW_MS, rank="")], {}, NOW_MS)
    assert found.keep == []
    assert sent(found) == {
        ("a", "0"): [(NOW_MS, 1.0), (NOW_MS + 1, 3.0)],
        ("b", "0"): [(NOW_MS, 2.0)],
        ("a", ""): [(NOW_MS, 1.0)],
    }


def test_an_earlier_value_than_the_newest_delivered_is_kept() -> None:
    earlier = sample(NOW_MS - 5)
    last = {("a", "0"): NOW_MS - 5}
    assert plan([earlier], last, NOW_MS).keep == [earlier]
    assert plan([sample(NOW_MS - 4)], last, NOW_MS).keep == []
    assert plan([sample(NOW_MS - 5, rank="1")], last, NOW_MS).keep == []


def test_all_that_follows_a_second_step_of_a_millisecond_is_kept_with_it() -> None:
    first = [sample(NOW_MS + 0.1, 7.0, "step"), sample(NOW_MS + 0.1, 1.0, "loss")]
    second = [
        sample(NOW_MS + 0.4, 8.0, "step"),
        sample(NOW_MS + 0.4, 2.0, "loss"),
        # Only this line has it: alone, Prometheus would hold it without its microseconds.
        sample(NOW_MS + 0.4, 3.0, "val"),
        sample(NOW_MS + 0.6, 4.0, "after"),
    ]
    elsewhere = [sample(NOW_MS + 0.6, 5.0, "val", rank="1"), sample(NOW_MS + 1.0, 6.0, "val")]
    found = plan([*first, *second, *elsewhere], {}, NOW_MS)
    assert sorted(found.keep) == sorted(second)
    # The same across two batches.
    last = {sample[:2]: NOW_MS for sample in first}
    assert sorted(plan([*second, *elsewhere], last, NOW_MS).keep) == sorted(second)


def test_texts_are_kept_and_do_not_count_as_the_newest() -> None:
    text = sample(NOW_MS + 5, "best")
    found = plan([text, sample(NOW_MS)], {}, NOW_MS)
    assert found.keep == [text]
    assert sent(found) == {("a", "0"): [(NOW_MS, 1.0)]}


def test_the_far_past_and_the_future_are_kept() -> None:
    reach = (NOW_MS - PAST_MS, NOW_MS + FUTURE_MS)
    too_old, too_new = sample(reach[0] - 1), sample(reach[1] + 1)
    found = plan([too_old, sample(reach[0]), too_new, sample(reach[1])], {}, NOW_MS)
    assert found.keep == [too_old, too_new]
    assert [ms for ms, _ in sent(found)["a", "0"]] == [*reach]
    ancient = [sample(-62_135_596_800_000), sample(-1), sample(0)]
    assert plan(ancient, {}, NOW_MS).keep == ancient


def test_samples_sent_lie_within_the_window_of_prometheus() -> None:
    config = (Path(__file__).parents[3] / "prometheus" / "prometheus.yml").read_text()
    [hours] = re.findall(r"^ *out_of_order_time_window: (\d+)h$", config, re.MULTILINE)
    assert (int(hours) - 1) * 3600 * 1000 >= PAST_MS


def test_samples_out_of_order_are_put_in_order() -> None:
    found = plan([sample(NOW_MS), sample(NOW_MS - 5, 2.0), sample(NOW_MS - 2, 3.0)], {}, NOW_MS)
    assert found.keep == []
    assert sent(found)["a", "0"] == [(NOW_MS - 5, 2.0), (NOW_MS - 2, 3.0), (NOW_MS, 1.0)]


def test_the_first_to_arrive_in_a_millisecond_is_sent_however_large_the_batch() -> None:
    first, late = sample(NOW_MS + 0.5, 1.0), sample(NOW_MS + 0.1, 2.0)
    for batch in ([first], [first, late], [first, late, sample(NOW_MS + 1, math.nan)]):
        assert sent(plan(batch, {}, NOW_MS))["a", "0"][0] == (NOW_MS, 1.0)
    assert plan([first, late, sample(NOW_MS + 1, math.nan)], {}, NOW_MS).keep == [late]


def test_refused_samples_are_kept_as_they_came() -> None:
    first, refused = sample(NOW_MS + 0.5), Sample("a", "0", NOW_MS * 1000 + 1007, 2.0, True, "m")
    found = plan([first, refused, sample(NOW_MS, "text")], {}, NOW_MS)
    without = found.without({(("a", "0"), NOW_MS + 1)})
    assert without.send == {("a", "0"): [first]}
    assert without.keep == [sample(NOW_MS, "text"), refused]
    assert found.without({(("a", "0"), NOW_MS), (("a", "0"), NOW_MS + 1)}).send == {}
