"""``compare/graphs.js``: what the bars and lines of a comparison show."""

from typing import Any

from tests.web.js.conftest import Call

_MODULE = "js/compare/graphs.js"


def _group(workers: int, runs: int, mean: float | None, **more: Any) -> dict[str, Any]:
    times = mean and {"mean": mean, "minimum": mean - 1, "maximum": mean + 1}
    return {
        "label": f"{workers} workers",
        "num_workers": workers,
        "run_ids": list(range(runs)),
        "reached": runs if mean else 0,
        "training_seconds_to_accuracy": times,
        "speedup": None,
        "throughput_speedup": None,
        "phases": {},
        **more,
    }


def _result(run_id: int, seconds: float | None) -> dict[str, Any]:
    reached = seconds and {"training_seconds": seconds, "wall_seconds": seconds + 1}
    return {"run_id": run_id, "name": "r", "time_to_accuracy": reached}


def _bars(compute: Call, groups: list[Any], results: list[Any]) -> Any:
    comparison = {"groups": groups, "results": results}
    return compute(_MODULE, "(m, comparison) => m.toBars(comparison)", comparison)


def test_groups_of_several_runs_have_whiskers(compute: Call) -> None:
    groups = [_group(1, 2, 9.0), _group(2, 2, None)]
    bars = _bars(compute, groups, [_result(i, 9.0) for i in range(4)])
    assert bars["rows"] == ["1 workers", "2 workers (0 of 2 reached)"]
    [part] = bars["parts"]
    assert (part["values"], part["lows"], part["highs"]) == ([9, None], [8, None], [10, None])


def test_single_runs_have_a_bar_each(compute: Call) -> None:
    groups = [_group(1, 1, 9.0), _group(2, 1, None)]
    bars = _bars(compute, groups, [_result(1, 9.0), _result(2, None)])
    assert bars["rows"] == ["1 · r", "2 · r (not reached)"]
    assert bars["parts"][0]["values"] == [9, None]


def test_without_a_time_there_is_no_bar(compute: Call) -> None:
    bars = _bars(compute, [_group(1, 1, None)], [_result(1, None)])
    assert (bars["rows"], bars["note"]) == ([], "No run has reached its goal.")


def test_a_speedup_is_drawn_beside_the_ideal(compute: Call) -> None:
    groups = [_group(2, 1, 9.0, speedup=1.0), _group(8, 1, 3.0, speedup=3.0)]
    lines = compute(_MODULE, "(m, groups) => m.toSpeedups(groups)", groups)
    assert [(line["name"], line["x"], line["y"]) for line in lines] == [
        ("ideal", [2, 8], [1, 4]),
        ("time to accuracy", [2, 8], [1, 3]),
    ]


def test_groups_of_as_many_workers_do_not_scale(compute: Call) -> None:
    groups = [_group(2, 1, 9.0, speedup=1.0), _group(2, 1, 3.0, speedup=3.0)]
    assert compute(_MODULE, "(m, groups) => m.toSpeedups(groups)", groups) == []


def test_phases_come_in_the_order_of_a_step(compute: Call) -> None:
    groups = [_group(1, 1, 1.0, phases={"other": 1.0, "backward": 2.0, "data": 3.0})]
    parts = compute(_MODULE, "(m, groups) => m.toPhases(groups)", groups)
    assert [(part["name"], part["values"]) for part in parts] == [
        ("data", [3]),
        ("backward", [2]),
        ("other", [1]),
    ]
