"""Options come from a dataclass, and a wrong one is refused with a message that helps."""

from dataclasses import dataclass

import pytest

from worker.training import options


@dataclass(frozen=True)
class Config:
    """Train something."""

    learning_rate: float = 0.1
    """Step size, 100 % of it."""
    epochs: int = 3
    """How often."""
    name: str = "plain"

    def __post_init__(self) -> None:
        options.check({"--epochs must be at least 1": self.epochs >= 1})


def test_nothing_given_leaves_the_defaults() -> None:
    assert options.parse(Config, []) == Config()


@pytest.mark.parametrize(
    "argv",
    [
        ["--learning-rate", "0.5", "--epochs", "7"],
        ["--learning_rate", "0.5", "--epochs", "7"],
        ["--learning_rate=0.5", "--epochs=7"],
    ],
)
def test_values_are_given_in_any_spelling(argv: list[str]) -> None:
    assert options.parse(Config, argv) == Config(learning_rate=0.5, epochs=7)


def test_a_value_keeps_its_underscores() -> None:
    assert options.parse(Config, ["--name=a_b"]).name == "a_b"
    assert options.parse(Config, ["--name", "a_b"]).name == "a_b"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--speed", "1"], "unknown option --speed; the options are --learning-rate, --epochs"),
        (["--epoch", "1"], "unknown option --epoch;"),
        (["--learning_rte=1"], "unknown option --learning-rte=1;"),
        (["stray"], "unknown option stray;"),
        (["--epochs", "many"], "argument --epochs: invalid int value: 'many'"),
        (["--epochs"], "argument --epochs: expected one argument"),
        (["--epochs", "0"], "--epochs must be at least 1"),
    ],
)
def test_what_is_wrong_exits_with_2_and_says_why(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        options.parse(Config, argv)
    assert exited.value.code == 2
    told = capsys.readouterr().err
    assert said in told
    assert "--learning-rate" in told, "the known options are named"


def test_help_is_the_sentence_under_each_field(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        options.parse(Config, ["--help"])
    assert exited.value.code == 0
    told = capsys.readouterr().out
    assert "Train something." in told
    assert "Step size, 100 % of it. (default: 0.1)" in told
    assert "How often. (default: 3)" in told
