"""``compare/differences.js``: in what runs differ."""

from typing import Any

from tests.web.js.conftest import Call

_MODULE = "js/compare/differences.js"


def _manifest(settings: dict[str, Any], packages: dict[str, str], **limits: Any) -> dict[str, Any]:
    return {
        "benchmark": "digits",
        "args": {},
        "settings": settings,
        "limits": limits,
        "versions": {"mlbench": "1"},
        "machines": [{"ranks": [0], "cpu_model": "A", "packages": packages}],
    }


def _rows(compute: Call, differences: list[object], *manifests: object) -> list[dict[str, Any]]:
    comparison = {"differences": differences, "results": [{"run_id": 1}, {"run_id": 2}]}
    rows: list[dict[str, Any]] = compute(
        _MODULE,
        "(m, [comparison, manifests]) => m.toRows(comparison, manifests)",
        [comparison, manifests],
    )
    return rows


def test_what_breaks_the_comparison_comes_first_and_once(compute: Call) -> None:
    judged = {
        "name": "batch_size",
        "breaks": "yes",
        "values": [{"value": "64", "run_ids": [2]}, {"value": "128", "run_ids": [1]}],
    }
    first = _manifest({"batch_size": 128, "seed": 1}, {"torch": "2"}, num_workers=1)
    second = _manifest({"batch_size": 64, "seed": 1}, {"torch": "3"}, num_workers=2)
    rows = _rows(compute, [judged], first, second)
    told = [(row["group"], row["name"], row["breaks"], row["values"]) for row in rows]
    assert told == [
        ("Settings", "batch_size", "yes", ["128", "64"]),
        ("Limits", "num_workers", "no", ["1", "2"]),
        ("Packages", "torch", "no", ["2", "3"]),
    ]


def test_what_a_run_does_not_state_is_said(compute: Call) -> None:
    [row] = _rows(compute, [], _manifest({"momentum": 0.9}, {}), _manifest({}, {}))
    assert row["values"] == ["0.9", "not stated"]


def test_equal_manifests_differ_in_nothing(compute: Call) -> None:
    assert _rows(compute, [], _manifest({"a": 1}, {}), _manifest({"a": 1}, {})) == []


def test_rows_are_found_by_name_and_value_in_any_case(compute: Call) -> None:
    row = {"group": "Settings", "name": "data", "values": ["CIFAR-10"]}
    match = "(m, [row, text]) => m.matches(row, text)"
    assert compute(_MODULE, match, [row, " cifar "])
    assert compute(_MODULE, match, [row, "DATA"])
    assert not compute(_MODULE, match, [row, "digits"])
