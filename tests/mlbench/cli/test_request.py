"""Arguments and options of a call become a request."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from mlbench.cli import load_command
from mlbench.cli.common import UsageError
from mlbench.cli.request import Code, make_name, read_code, read_settings
from mlbench.contract.limits import MAX_RESOURCE_NAME_LENGTH
from mlbench.contract.runspec import CommonSpec

_BENCHMARKS = ("digits", "steps")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working directory of the command."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def read(task: str, *arguments: str, image: str | None = None, local: bool = False) -> Code:
    return read_code(task, arguments, image, _BENCHMARKS, local=local)


# --- code to run ---


def test_a_bandwidth_that_means_no_limit_is_refused() -> None:
    code = Code(title="digits", benchmark="digits")
    assert code.request_fields(CommonSpec(max_bandwidth=999), None)["max_bandwidth"] == 999
    with pytest.raises(UsageError, match=r"--bandwidth: .* Use 999 instead"):
        code.request_fields(CommonSpec(max_bandwidth=1000), None)


def test_a_benchmark_is_called_by_its_name(folder: Path) -> None:
    (folder / "digits").touch()
    assert read("digits") == Code(title="digits", benchmark="digits")


def test_a_python_script_runs_with_this_python(folder: Path) -> None:
    script = folder / "train it.py"
    script.touch()
    awkward = ("--my-arg", "3", "a b", '{"x": 1}', "it's", "$HOME", "", "--")
    code = read("./train it.py", *awkward)
    assert shlex.split(code.command or "") == [sys.executable, str(script), *awkward]
    assert (code.title, code.benchmark, code.backend) == ("train it", None, "gloo")
    assert (code.image, code.working_dir) == ("local", str(folder))
    assert read("train it.py", *awkward) == code


def test_a_program_gets_all_following_arguments(folder: Path) -> None:
    words = ("--nproc-per-node", "2", "train.py")
    code = read("python", *words)
    program = str(Path(sys.executable).with_name("python"))
    assert shlex.split(code.command or "") == [program, *words]
    assert (code.title, code.image, code.working_dir) == ("python", "local", str(folder))


@pytest.mark.parametrize(
    ("call", "read_as"),
    [
        ("python -c pass --workers 3", "python -- -c pass --workers 3"),
        ("--workers 3 python -m a", "--workers 3 python -- -m a"),
        ("python -- -m a", "python -- -m a"),
        ("env --workers 3 --name=a -- A=b python", "--workers 3 --name=a env -- A=b python"),
        ("env --workers 3 train.py -- b", "env -- --workers 3 train.py -- b"),
        ("env --own -- b", "env -- --own -- b"),
        ("./a.py --workers 3", "./a.py --workers 3"),
        ("digits --workers 3", "digits --workers 3"),
    ],
)
def test_arguments_after_a_program_are_not_options_of_mlbench(call: str, read_as: str) -> None:
    command = load_command("run")
    given, same = (command.make_context("run", text.split()).params for text in (call, read_as))
    assert given == same


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        ("./a.py --rate 3", "write your script's own options after --: ./a.py -- --rate"),
        ("--image=b nowhere --rate", "options after --: nowhere -- --rate"),
        ("digits --rate=3", "write the options of digits as --set rate=VALUE"),
    ],
)
def test_an_unknown_option_may_be_meant_for_the_code(call: str, cure: str) -> None:
    command = load_command("run")
    with pytest.raises(Exception, match=f"No such option: --rate; .*{re.escape(cure)}"):
        command.make_context("run", call.split())


def test_another_script_is_executed_directly(folder: Path) -> None:
    (folder / "bin").mkdir()
    script = folder / "bin" / "train"
    script.touch(mode=0o755)
    assert read("bin/train", "x").command == shlex.join([str(script), "x"])
    os.chdir("bin")
    assert read("train").command == shlex.quote(str(script)), "the name is not one of a benchmark"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("missing.py", "missing.py: file not found"),
        ("./digits", "digits: file not found"),
        ("./plain.sh", "plain.sh: not executable. Run chmod +x plain.sh"),
        ("./", ".: is a folder. Name the file to run."),
        ("nothing.sh", "nothing.sh: no such benchmark or file. The benchmarks are digits, steps"),
    ],
)
def test_an_impossible_task_is_refused(folder: Path, task: str, message: str) -> None:
    (folder / "plain.sh").touch(mode=0o644)
    with pytest.raises(UsageError, match=re.escape(message)):
        read(task)


def test_an_image_gets_all_arguments_and_a_benchmark_none(folder: Path) -> None:
    code = read("python", "train.py", "--rate", "0.1 {rank}", image="me/train:1")
    command = "python train.py --rate '0.1 {rank}'"
    assert code == Code(title="python", image="me/train:1", command=command, backend="gloo")
    with pytest.raises(UsageError, match=r"digits does not take arguments. Set its options with"):
        read("digits", "--epochs", "3")


# --- options ---


def test_benchmarks_have_settings_and_own_code_has_arguments() -> None:
    code = Code(title="digits", benchmark="digits")
    assert read_settings(code, ["epochs=3", "a=b=c", "d="]) == {"epochs": "3", "a": "b=c", "d": ""}
    own = Code(title="train", image="local", command="train")
    with pytest.raises(UsageError, match=r"Write the arguments of your own code after --"):
        read_settings(own, ["epochs=3"])


# --- names ---


@pytest.mark.parametrize(
    ("title", "stem"),
    [
        *(("digits", "digits"), ("My_Script v2", "my-script-v2"), ("--", "run"), ("été", "t")),
        ("a" * 50, "a" * 24),
    ],
)
def test_a_generated_name_is_valid_in_kubernetes(title: str, stem: str) -> None:
    assert re.fullmatch(rf"{stem}-\d{{8}}-\d{{6}}", make_name(title))
    assert len(make_name("a" * 50, room=6)) == MAX_RESOURCE_NAME_LENGTH - 6
