"""Rules in ``prometheus/``, and promtool's test cases for them."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "prometheus"
TESTS = sorted((FOLDER / "tests").glob("*.yml"))

Rule = Mapping[str, Any]


def read_rules(kind: str) -> dict[str, Rule]:
    """Return all rules of a kind, ``alert`` or ``record``, by name."""
    return {
        rule[kind]: rule
        for path in sorted((FOLDER / "rules").glob("*.yml"))
        for group in _load(path)["groups"]
        for rule in group["rules"]
        if kind in rule
    }


def read_cases(kind: str) -> Iterator[Mapping[str, Any]]:
    """Yield all cases of a kind, ``alert_rule_test`` or ``promql_expr_test``."""
    for path in TESTS:
        for test in _load(path)["tests"]:
            yield from test.get(kind, ())


@functools.cache
def _load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())
