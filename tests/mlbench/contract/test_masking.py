"""Secrets in command lines are masked; settings are not."""

import shlex
import time

import pytest

from mlbench.contract.masking import mask_command, mask_words


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        ("train.py --token hunter3 --lr 0.1", "train.py --token *** --lr 0.1"),
        ("train.py --hf-token=hunter3 -v", "train.py --hf-token=*** -v"),
        ("train.py --dbPassword 'hunter3 x'", "train.py --dbPassword ***"),
        ("env WANDB_API_KEY=hunter3 train.py", "env WANDB_API_KEY=*** train.py"),
        ("train.py wandb.api_key=hunter3,x;y lr=1", "train.py wandb.api_key=*** lr=1"),
        (
            "train.py -password hunter3 --password --lr 1",
            "train.py -password *** --password --lr 1",
        ),
        ("train.py --db postgres://me:hunter3@host/x", "train.py --db postgres://me:***@host/x"),
        ("curl https://host/?token=hunter3", "curl https://host/?token=***"),
        ("curl -H 'Authorization: Bearer hunter3'", "curl -H 'Authorization: ***'"),
        (
            """x --config '{"secret": "hunter3 y", "lr": 1}'""",
            """x --config '{"secret": "***", "lr": 1}'""",
        ),
        (
            """bash -c 'cd; A_SECRET=hunter3 x --pwd "hunter3 y" --lr 1; x --token hunter3'""",
            """bash -c 'cd; A_SECRET=*** x --pwd "***" --lr 1; x --token ***'""",
        ),
        ("x 'unbalanced --token hunter3", "x 'unbalanced --token ***"),
    ],
)
def test_secrets_are_masked(command: str, masked: str) -> None:
    shown = mask_command(command)
    assert "hunter3" not in shown
    try:
        assert shlex.split(shown) == shlex.split(masked)
    except ValueError:
        assert shown == masked
    assert mask_command(shown) == shown


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc-per-node 2 train.py --tokenizer gpt2 --max-tokens 512 --author ada",
        "train.py --pad-token '<pad>' --eos_token=2 --cost-per-token 0.1 --keys 3 --key job",
        "python  'my train.py' {rank} --monkey 3 model.pass_through=1 --secret-file x",
        "bash -c 'echo \"$HOME\"; x --lr 0.1'",
        "git clone ssh://git@host/repository.git",
    ],
)
def test_other_commands_are_unchanged(command: str) -> None:
    assert mask_command(command) == command
    assert mask_words(shlex.split(command)) == shlex.split(command)


def test_long_words_are_masked_quickly() -> None:
    began = time.process_time()
    mask_words(["x" * 200_000, "-" * 200_000, " -x" * 20_000, "a:" * 20_000, "://" * 20_000])
    assert time.process_time() - began < 2
