"""Settings in command lines: parsing, and insertion of swept values."""

import pytest

from mlbench.contract.command_settings import insert_settings, is_seed, read_command


@pytest.mark.parametrize(
    ("command", "pattern", "settings"),
    [
        ("python train.py", "python train.py", {}),
        ("train.py --lr 0.1 --seed 3", "train.py --lr …", {"lr": "0.1"}),
        ("train.py --seed=3 --lr=0.1 --amp", "train.py --amp --lr …", {"lr": "0.1"}),
        ("train.py --weight-decay -0.5", "train.py --weight_decay …", {"weight_decay": "-0.5"}),
        (
            "app.py model.lr=0.1 +x=1 data_seed=4",
            "app.py --model.lr … --x …",
            {"model.lr": "0.1", "x": "1"},
        ),
        ("env LR=0.1 SEED=2 ./a", "env ./a --LR …", {"LR": "0.1"}),
        ("train.py --lr 0.1 --lr 0.2", "train.py --lr …", {"lr": "0.1 0.2"}),
        ("train.py --layers 64 32", "train.py 32 --layers …", {"layers": "64"}),
        ("train.py --name 'a b' --verbose", "train.py --verbose --name …", {"name": "a b"}),
        ("sh -c 'echo \"a'", 'sh -c echo "a', {}),
        ("unbalanced 'quote", "unbalanced 'quote", {}),
        ("get http://host/?lr=1", "get http://host/?lr=1", {}),
    ],
)
def test_a_command_is_parsed(command: str, pattern: str, settings: dict[str, str]) -> None:
    line = read_command(command)
    assert (line.pattern, line.settings) == (pattern, settings)


def test_seeds_are_recognized_by_name() -> None:
    assert all(map(is_seed, ("seed", "SEED", "random_seed", "trainer.seed")))
    assert not any(map(is_seed, ("seeds", "seed_length", "lr", "linseed")))


def test_settings_replace_their_placeholders_or_are_appended() -> None:
    swept = {"lr": "0.05", "opt": "a b"}
    assert insert_settings("./t.py --epochs 5", swept) == "./t.py --epochs 5 --lr 0.05 --opt 'a b'"
    inserted = insert_settings("env LR={lr} ./t.py '{x}' {opt}", swept)
    assert inserted == "env LR=0.05 ./t.py '{x}' 'a b'"
