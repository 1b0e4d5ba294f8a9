"""What a rule finds in a dashboard, and which findings are accepted."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tests.grafana.dashboards import Dashboard
from tests.grafana.exclusions import Exclusion


@dataclass(frozen=True)
class Fault:
    """A place in a dashboard where a rule does not hold."""

    panel: str
    """The panel's title, ``variable NAME``, ``annotation NAME``, or ``dashboard`` for all of it."""
    text: str


Rule = Callable[[Dashboard], Iterator[Fault]]


def name(rule: Rule) -> str:
    """Return a rule's name: its function's, which for the linter's rules is the linter's."""
    return rule.__name__.replace("_", "-")


def judge(board: Dashboard, rule: Rule, exclusions: Iterable[Exclusion]) -> list[str]:
    """Return a line for each fault that no exclusion accepts, and each exclusion without fault."""
    mine = [one for one in exclusions if one.dashboard == board.uid and one.rule == name(rule)]
    found = list(rule(board))
    excluded = {one.panel for one in mine}
    faults = [f"{fault.panel}: {fault.text}" for fault in found if fault.panel not in excluded]
    needless = excluded - {fault.panel for fault in found}
    return faults + [f"{panel}: the exclusion excludes nothing" for panel in sorted(needless)]
