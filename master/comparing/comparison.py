"""Several runs beside each other: whether they can be compared, and which are how much faster."""

from collections.abc import Mapping, Sequence

from master.comparing import differences
from master.comparing.differences import Facts
from master.comparing.groups import to_groups
from mlbench.results import Comparison, Result


def compare(results: Sequence[Result], facts: Mapping[int, Facts]) -> Comparison:
    """Return the comparison of runs, at least one, whose facts are given by their ids."""
    known = differences.alike(facts)
    found = differences.find(known)
    return Comparison(
        differences.are_comparable(found), found, to_groups(results, known), tuple(results)
    )
