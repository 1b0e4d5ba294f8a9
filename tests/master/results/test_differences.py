"""Whether runs can be compared, and in which words it is said that they cannot."""

import pytest

from master.results.compare import are_comparable, find_differences, normalize
from mlbench.results import Difference, Value
from tests.master.results.making import make_facts


def without(facts: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in facts.items() if name not in names}


def differences(*facts: dict[str, str]) -> tuple[Difference, ...]:
    """Return the differences of runs that are numbered from 1 on."""
    return find_differences(normalize(dict(enumerate(facts, 1))))


def test_runs_that_differ_in_nothing_are_comparable() -> None:
    assert differences(make_facts(), make_facts()) == ()
    assert differences(make_facts()) == ()
    assert are_comparable(()) == "yes"


@pytest.mark.parametrize("name", ["goal", "batch_size"])
def test_another_goal_or_batch_size_cannot_be_compared(name: str) -> None:
    found = differences(make_facts(), make_facts() | {name: "other"}, make_facts())
    usual = make_facts()[name]
    assert found == (
        Difference(
            name,
            "yes",
            (Value(usual, (1, 3)), Value("other", (2,))),
            f"{name} is {usual} in runs 1, 3 and other in run 2: they cannot be compared",
        ),
    )
    assert are_comparable(found) == "no"


def test_data_is_compared_by_its_checksum_whatever_its_name() -> None:
    assert differences(make_facts(), make_facts(data="the same")) == ()
    [found] = differences(make_facts(), make_facts(data_sha256="d2"))
    assert (found.name, found.breaks) == ("data", "yes")
    assert [one.value for one in found.values] == ["d1", "d2"]


def test_data_is_compared_by_its_name_where_one_has_no_checksum() -> None:
    nameless = without(make_facts(), "data_sha256")
    assert differences(make_facts(), nameless) == ()
    [found] = differences(make_facts(), nameless | {"data": "cifar10"})
    assert (found.name, found.breaks) == ("data", "yes")
    assert [one.value for one in found.values] == ["digits", "cifar10"]


def test_a_batch_that_is_fixed_for_a_worker_grows_with_the_workers() -> None:
    one = make_facts(batch_size="128", worker_batch_size="128")
    two = make_facts(batch_size="256", worker_batch_size="128", num_workers=2)
    assert are_comparable(differences(one, two)) == "yes"
    smaller = make_facts(batch_size="128", worker_batch_size="64", num_workers=2)
    assert differences(one, smaller) == ()
    assert are_comparable(differences(one, two, smaller)) == "no"


@pytest.mark.parametrize("name", ["goal", "data", "batch_size"])
def test_where_one_run_does_not_state_it_nobody_knows(name: str) -> None:
    found = differences(make_facts(), without(make_facts(), name, "data_sha256"))
    assert [(one.name, one.breaks) for one in found] == [(name, "unknown")]
    assert found[0].text == (
        f"{name} is {make_facts()[name]} in run 1 and not stated in run 2: "
        "whether they can be compared is not known"
    )
    assert are_comparable(found) == "unknown"


def test_a_stated_difference_breaks_whatever_a_third_run_does_not_state() -> None:
    found = differences(
        make_facts(), without(make_facts(), "batch_size"), make_facts(batch_size="64")
    )
    assert [(one.name, one.breaks) for one in found] == [("batch_size", "yes")]
    assert Value("not stated", (2,)) in found[0].values


def test_what_no_run_states_is_the_same_where_they_run_the_same() -> None:
    bare = without(make_facts(), "data", "data_sha256", "batch_size")
    assert differences(bare, bare) == ()
    found = differences(bare, bare | {"command": "python other.py"})
    assert [(one.name, one.breaks) for one in found] == [
        ("data", "unknown"),
        ("batch_size", "unknown"),
        ("command", "no"),
    ]


def test_what_breaks_comes_first() -> None:
    found = differences(
        without(make_facts(cpu="a", learning_rate="0.1"), "goal"),
        make_facts(cpu="b", learning_rate="0.2", batch_size="64"),
    )
    assert [(one.name, one.breaks) for one in found] == [
        ("batch_size", "yes"),
        ("goal", "unknown"),
        ("cpu", "no"),
        ("learning_rate", "no"),
    ]
    assert found[2].text == "cpu is a in run 1 and b in run 2"
    assert are_comparable(found) == "no"


def test_what_one_varies_is_no_difference_nor_is_what_one_run_alone_states() -> None:
    assert not differences(
        make_facts(1, num_cpus="1", max_bandwidth="100"),
        make_facts(4, num_cpus="2", max_bandwidth="any", learning_rate="0.1"),
    )


def test_the_goals_that_runs_had_are_told_where_they_are_judged_by_another() -> None:
    own = [make_facts(own_goal="acc >= 97"), make_facts(own_goal="acc >= 90", goal="acc >= 90")]
    assert [one.name for one in differences(*own)] == ["goal"]
    asked = [facts | {"goal": "acc >= 80"} for facts in own]
    assert [(one.name, one.breaks) for one in differences(*asked)] == [("own_goal", "no")]


def test_the_same_command_in_another_folder_may_learn_other_data() -> None:
    own = without(make_facts(command="python train.py"), "data", "data_sha256", "batch_size")
    here = own | {"working_dir": "/here"}
    assert are_comparable(differences(here, here)) == "yes"
    found = differences(here, own | {"working_dir": "/there"})
    assert are_comparable(found) == "unknown"
    assert [one.name for one in found] == ["data", "batch_size", "working_dir"]
