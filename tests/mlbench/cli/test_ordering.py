"""From a call's words and options to an order."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from mlbench.cli.common import WrongCallError
from mlbench.cli.ordering import (
    LONGEST_NAME,
    Code,
    check_name,
    make_name,
    read_code,
    read_order,
    seed_of_repeat,
)
from mlbench.client import Benchmark

_BENCHMARKS = ("digits", "steps")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command is called."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def read(task: str, *arguments: str, image: str | None = None) -> Code:
    return read_code(task, arguments, image, _BENCHMARKS)


# --- what to run ---


def test_a_benchmark_is_called_by_its_name(folder: Path) -> None:
    (folder / "digits").touch()
    assert read("digits") == Code("digits", benchmark="digits")


def test_a_python_script_runs_with_this_python(folder: Path) -> None:
    script = folder / "train it.py"
    script.touch()
    awkward = ("--my-arg", "3", "a b", '{"x": 1}', "it's", "$HOME", "", "--")
    code = read("./train it.py", *awkward)
    assert code.command is not None
    assert shlex.split(code.command) == [sys.executable, str(script), *awkward]
    assert (code.title, code.benchmark, code.working_dir) == ("train it", None, str(folder))
    assert read("train it.py", *awkward) == code


def test_another_script_is_run_itself(folder: Path) -> None:
    (folder / "bin").mkdir()
    script = folder / "bin" / "train"
    script.touch(mode=0o755)
    assert read("bin/train", "x").command == shlex.join([str(script), "x"])
    os.chdir("bin")
    assert read("train").command == shlex.quote(str(script)), "no benchmark has its name"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("missing.py", "there is no file missing.py"),
        ("./digits", "there is no file digits"),
        ("./plain.sh", "plain.sh is not executable: chmod +x plain.sh"),
        ("./", ". is a folder: name the file to run"),
        (
            "nothing.sh",
            "there is neither a benchmark nor a file 'nothing.sh' here; "
            "the benchmarks are digits, steps",
        ),
    ],
)
def test_what_cannot_be_run_is_told(folder: Path, task: str, message: str) -> None:
    (folder / "plain.sh").touch(mode=0o644)
    with pytest.raises(WrongCallError, match=re.escape(message)):
        read(task)


def test_an_image_runs_all_the_words(folder: Path) -> None:
    code = read("python", "train.py", "--rate", "0.1 {rank}", image="me/train:1")
    assert code == Code("python", image="me/train:1", command="python train.py --rate '0.1 {rank}'")


def test_a_benchmark_takes_no_arguments() -> None:
    with pytest.raises(WrongCallError, match=r"digits takes its options by --set KEY=VALUE"):
        read("digits", "--epochs", "3")


# --- the order ---


def test_a_benchmark_has_its_options_and_the_backend_that_it_likes() -> None:
    order = read_order(Code("digits", benchmark="digits"), settings=["epochs=3", "a=b=c", "d="])
    assert order.args == {"epochs": "3", "a": "b=c", "d": ""}
    assert order.backend is None


def test_limits_may_be_fractions() -> None:
    order = read_order(Code("digits", benchmark="digits"), num_cpus=0.5, max_bandwidth=2.5)
    assert (order.num_cpus, order.max_bandwidth) == (0.5, 2.5)


def test_own_code_talks_over_gloo_unless_told() -> None:
    own = Code("train", image="local", command="train")
    assert read_order(own).backend == "gloo"
    assert read_order(own, backend="mpi").backend == "mpi"


def test_own_code_has_arguments_instead_of_options() -> None:
    own = Code("train", image="local", command="train")
    with pytest.raises(WrongCallError, match=r"write the arguments of your own code behind --"):
        read_order(own, settings=["epochs=3"])


# --- names and seeds ---


@pytest.mark.parametrize(
    ("title", "stem"),
    [
        ("digits", "digits"),
        ("My_Script v2", "my-script-v2"),
        ("--", "run"),
        ("été", "t"),
        ("a" * 50, "a" * 24),
    ],
)
def test_a_name_is_one_that_kubernetes_takes(title: str, stem: str) -> None:
    name = make_name(title)
    assert re.fullmatch(rf"{stem}-\d{{8}}-\d{{6}}", name)
    assert len(name) <= LONGEST_NAME


def test_a_name_leaves_the_room_that_is_asked_for() -> None:
    assert len(make_name("a" * 50, room=6)) == LONGEST_NAME - 6


def test_each_repeat_has_the_next_seed_where_there_is_one() -> None:
    digits = Benchmark("digits", "", takes_seed=True)
    steps = Benchmark("steps", "", takes_seed=False)
    assert [seed_of_repeat(digits, None, repeat) for repeat in range(3)] == [1, 2, 3]
    assert [seed_of_repeat(digits, 7, repeat) for repeat in range(3)] == [7, 8, 9]
    assert [seed_of_repeat(None, 0, repeat) for repeat in range(2)] == [0, 1]
    assert seed_of_repeat(steps, None, 1) is None
    with pytest.raises(WrongCallError, match="steps takes none"):
        seed_of_repeat(steps, 1, 0)


def test_a_name_that_would_be_taken_for_an_id_is_refused() -> None:
    check_name("run-7")
    with pytest.raises(WrongCallError, match="--name 7: a number alone is taken for a run's id"):
        check_name("7")
