"""What contention cost is told of each group, and doubted where it may explain a difference."""

from dataclasses import replace

import pytest

from mlbench.contract.records import Disturbance
from mlbench.contract.results import RankDisturbance, Result
from mlbench.evaluation.comparison import compare, judge
from tests.mlbench.evaluation.making import make_facts, reaching
from tests.support.known import known
from tests.support.rows import QUIET


def waiting(run_id: int, workers: int, seconds: float, *shares: float) -> Result:
    """Return the result of a run whose ranks waited for such shares of their time."""
    ranks = []
    for rank, share in enumerate(shares):
        measured = Disturbance(**QUIET)
        waited = replace(
            measured, waiting_seconds=0.0, stack_waiting_seconds=share * measured.seconds
        )
        ranks.append(RankDisturbance(rank, 1, False, 0.0, None, "", waited))
    return reaching(run_id, workers, seconds, disturbances=tuple(ranks))


def groups(ours: float, theirs: float, *, faster: float) -> list[Result]:
    """Return five runs of one worker, and five of two, with their shares of waiting."""
    alone = [waiting(i, 1, 10 + i / 100, ours) for i in range(5)]
    return alone + [waiting(9 + i, 2, (10 + i / 100) / faster, 0.0, theirs) for i in range(5)]


def test_a_group_has_the_share_of_the_rank_that_waited_most_with_its_cost() -> None:
    results = groups(0.002, 0.03, faster=1.5)
    compared = compare(results, {run.run_id: make_facts(run.num_workers) for run in results})
    shares = [known(group.contention_share) for group in compared.groups]
    assert shares == pytest.approx([0.002, 0.03])
    assert known(compared.groups[1].contention_cost) == pytest.approx(0.039)
    assert judge(compared).verdict == "yes"


@pytest.mark.parametrize(
    ("ours", "theirs", "faster", "is_doubtful"),
    [
        (0.0, 0.04, 1.08, False),
        (0.0, 0.04, 1.03, True),
        (0.03, 0.0, 1.03, True),
        (0.04, 0.04, 1.001, False),
        (0.0, 0.005, 1.001, False),  # less than 1 % of the time is none
    ],
)
def test_a_difference_smaller_than_that_of_contention_is_doubtful(
    ours: float, theirs: float, faster: float, *, is_doubtful: bool
) -> None:
    results = groups(ours, theirs, faster=faster)
    compared = compare(results, {run.run_id: make_facts(run.num_workers) for run in results})
    assert bool(compared.groups[1].contention_doubt) == is_doubtful
    assert bool(judge(compared).disturbed) == is_doubtful


def test_the_sentence_has_the_difference_and_both_costs() -> None:
    results = groups(0.0, 0.04, faster=1.03)
    compared = compare(results, {run.run_id: make_facts(run.num_workers) for run in results})
    text = "1 worker and 2 workers differ by 3.0%, and CPU contention cost them about 0.0% and 5.2%"
    assert compared.judgement.disturbed == (text,)
    assert compared.judgement.fastest is None
