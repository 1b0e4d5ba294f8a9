"""What a report says in words."""

from dataclasses import replace

from mlbench.records import GitState, Limits, Machine, Manifest, RankOnMachine, Versions
from mlbench.report.statement import Fact, facts, statement, subtitle, title
from mlbench.results import Convergence, Score
from tests.mlbench.report.making import (
    make_aimless,
    make_comparison,
    make_difference,
    make_matrix,
    make_sweep,
)


def test_the_title_names_tasks_and_workers() -> None:
    matrix, alone = make_matrix((1, 2, 4), 2), make_comparison([make_aimless(1)])
    assert title(matrix) == "digits on 1, 2, 4 workers"
    assert subtitle(matrix) == "6 runs, goal: val_global_Prec@1 ≥ 97"
    assert (title(alone), subtitle(alone)) == ("own code on 1 worker", "1 run, no goal")


def test_runs_that_can_be_compared() -> None:
    said = statement(make_matrix((1, 2), 1))
    assert said.sentence == (
        "These runs can be compared: the same data, goal and batch size, as far as stated."
    )
    assert (said.reasons, said.differences, said.departures) == ((), (), ())
    assert statement(make_comparison([make_aimless(1)])).sentence == "", "a single one"


def test_reasons_come_before_what_else_differs() -> None:
    comparison = replace(
        make_matrix((1, 2), 1),
        comparable="no",
        differences=(
            make_difference("batch_size", "yes", "batch_size is 32 for run 1 and 64 for run 2"),
            make_difference("data", "unknown", "run 2 does not state its data"),
            make_difference("momentum", "learning", "momentum is 0 in run 1 and 0.9 in run 2"),
            make_difference("cpu", "no", "cpu is a for run 1 and b for run 2"),
        ),
    )
    said = statement(comparison)
    assert said.sentence == "These runs cannot be compared:"
    assert said.reasons == (
        "batch_size is 32 for run 1 and 64 for run 2",
        "run 2 does not state its data",
    )
    assert said.lists == (
        ("", said.reasons),
        ("What is learned may differ by:", ("momentum is 0 in run 1 and 0.9 in run 2",)),
        ("What else differs:", ("cpu is a for run 1 and b for run 2",)),
    )


def test_a_departure_is_told_once_for_all_its_runs() -> None:
    comparison = make_matrix((1, 2), 2)
    changed, goal = "the code has changes", "its goal is 90"
    departures: list[tuple[str, ...]] = [(changed,), (), (changed,), (changed, goal)]
    results = tuple(
        replace(result, departures=texts)
        for result, texts in zip(comparison.results, departures, strict=True)
    )
    said = statement(replace(comparison, results=results))
    assert said.departures == ("runs 1, 3, 4: the code has changes", "run 4: its goal is 90")


def test_a_disturbed_run_is_told_of_in_the_verdict_itself() -> None:
    comparison = make_matrix((1, 2), 1)
    first = replace(comparison.results[0], disturbed=("rank 0 waited for a core",))
    disturbed = replace(comparison, results=(first, comparison.results[1]))
    said = statement(disturbed)
    assert said.sentence.endswith("but not by times and rates: some were disturbed.")
    assert said.disturbed == ("run 1: rank 0 waited for a core",)
    scaling = make_difference("threads", "scaling", "threads is 1 and 2")
    assert statement(replace(disturbed, differences=(scaling,))).comparable == "scaling"
    assert statement(replace(disturbed, comparable="no")).comparable == "no"


# --- The facts of a manifest ---

_MACHINE = Machine(
    ranks=(0, 1),
    cpu_model="AMD EPYC",
    cpus=2,
    cpu_limit=1.5,
    bandwidth_limit=20.0,
    memory_bytes=8 * 2**30,
    gpus=("NVIDIA H100",),
    os="Linux 6.1",
    architecture="x86_64",
    python="3.11.2",
    packages={"zlib": "1", "numpy": "2.4", "torch": "2.13.0"},
    git=GitState("0123456789abcdef", dirty=True, root="/code"),
)
_MANIFEST = Manifest(
    run_id=1,
    name="first",
    division="closed",
    departures=("its goal is 90",),
    benchmark="digits",
    image="",
    command="",
    working_dir="/home/me",
    args={"goal": "90"},
    run_all_nodes=True,
    backend="",
    seed=0,
    settings={"device": "cpu", "exchange": "ddp", "bits": 4, "rate": 0.1, "folder": None},
    goal=None,
    data={},
    limits=Limits(
        num_workers=2, gpu_enabled=True, light_target=False, max_restarts=0, deadline_seconds=None
    ),
    attempts=1,
    created_at="",
    started_at=None,
    finished_at=None,
    versions=Versions("0.1.0"),
    machines=(_MACHINE,),
    ranks=(
        RankOnMachine(0, "w-0", None, "me/train@sha256:0123", (0, 1), -0.002, 0.0005),
        RankOnMachine(1, "w-1", None, None, (), None, None),
    ),
)


def test_the_facts_say_what_ran_and_on_what() -> None:
    assert {fact.name: fact.text for fact in facts(_MANIFEST)} == {
        "division": "closed",
        "departure": "its goal is 90",
        "task": "digits",
        "arguments": "goal=90",
        "settings": "device=cpu exchange=ddp rate=0.1",
        "folder": "/home/me",
        "seed": "0",
        "limits": "num_workers=2 gpu_enabled=true light_target=false max_restarts=0",
        "image ids": "me/train@sha256:0123",
        "cores": "rank 0 on 0, 1",
        "clocks": "within 2.5 ms of the master's",
        "ranks 0, 1": (
            "AMD EPYC; 2 cores (limit 1.5); 8.0 GiB of memory; NVIDIA H100; "
            "20 Mbit/s at most, but for 3 kB at once; Linux 6.1 x86_64; Python 3.11.2; "
            "torch 2.13.0; numpy 2.4; git 0123456789ab with uncommitted changes"
        ),
        "MLBench": "0.1.0",
    }


def test_official_scores_and_runs_that_converge_too_fast_are_told() -> None:
    matrix = make_matrix((1, 2), 1)
    fast = Convergence(128, 6.0, 9.8, 9.2, True, 1.6, "they took 6 epochs")
    scored = replace(
        matrix.groups[1],
        score=Score("set", (1, 2), 7.0, 11.2, "official score of set set: 7 s"),
        convergence=fast,
    )
    usual = replace(matrix.groups[0], convergence=replace(fast, is_too_fast=False))
    assert statement(replace(matrix, groups=(usual, scored))).notes[:2] == (
        "2 workers: official score of set set: 7 s",
        "2 workers: they took 6 epochs",
    )


def test_what_a_sweep_tells_of_many_groups_is_one_sentence() -> None:
    many, few = make_sweep((1, 2), 3), make_sweep((2,), 2)
    assert subtitle(many) == "36 runs, goal: val_global_Prec@1 ≥ 97, swept: exchange, bandwidth"
    caution, note = statement(many).notes
    assert caution.startswith("with 3 runs of a group, the test can never tell: plan at least five")
    assert note.startswith("0 of 11 groups differ from those that they are held against (p < 0.05")
    notes = statement(few).notes
    assert len(notes) == 6
    assert notes[1].startswith("exchange flat, bandwidth 20 cannot be told from exchange flat, ")


def test_facts_that_are_not_known_are_left_out() -> None:
    machine = Machine(ranks=(3,), cpu_model="a CPU")
    found = facts(replace(_MANIFEST, machines=(machine,), ranks=(), settings=None, seed=None))
    assert Fact("rank 3", "a CPU") in found
    assert not {"settings", "seed", "clocks", "image ids"} & {fact.name for fact in found}
