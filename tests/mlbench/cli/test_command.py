"""Error messages of the API, translated to the options of the command."""

import re

import pytest
from typer.testing import CliRunner

from mlbench.cli import app, load_command
from mlbench.cli.command import in_words_of_call

_RUN = ["digits", "--set", "learning-rate=0", "--set", "framework=jax"]
_BENCH = ["digits", "--sweep", "exchang=a,b", "--sweep", "bandwidth=5,10"]


@pytest.mark.parametrize(
    ("call", "refusal", "shown"),
    [
        (["run", *_RUN], "num_cpus: whole cores only", "--cpus: whole cores only"),
        (["run", *_RUN], "backend: digits runs with gloo", "--backend: digits runs with gloo"),
        (["run", *_RUN], "latency_ms: at most 10000", "--latency: at most 10000"),
        (["run", *_RUN], "latency_ms: no sch_netem", "--latency: no sch_netem"),
        (["run", *_RUN], "args.framework: jax is", "--set framework=jax: jax is"),
        (["run", *_RUN], "args.learning_rate: must be", "--set learning-rate=0: must be"),
        (["run", *_RUN], "args.epochs: must be", "--set epochs=: must be"),
        (["run", *_RUN], "args.goal: light_target says 90", "--set goal=: --light says 90"),
        (["run", *_RUN], "backend: say gpu_enabled=true", "--backend: say --gpu"),
        (["run", *_RUN], "name: a; num_workers: b", "--name: a; --workers: b"),
        (["run", *_RUN], "custom_image_command: it must", "it must"),
        (["run", *_RUN], "run 5 (name: a) is active", "run 5 (name: a) is active"),
        (["bench", *_BENCH], "swept.exchang: is no option", "--sweep exchang=a,b: is no option"),
        (
            ["bench", *_BENCH],
            "swept.bandwidth: max_bandwidth is given",
            "--sweep bandwidth=5,10: --bandwidth is given",
        ),
        (["bench", *_BENCH], "until_percent: less than 100", "--until: less than 100"),
        (["status", "9999"], "run_id: run 9999 not found", "run 9999 not found"),
        (["logs", "7"], "rank: run 7 has", "--rank: run 7 has"),
        (["compare", "7"], "runs: at most 200; target: a", "at most 200; --target: a"),
    ],
)
def test_an_error_names_the_typed_option(call: list[str], refusal: str, shown: str) -> None:
    command = load_command(call[0])
    context = command.make_context(call[0], call[1:])
    assert in_words_of_call(refusal, context) == shown


def test_the_list_of_commands_shows_the_first_line_of_each_help() -> None:
    listed = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    names = re.findall(r"^│ ([a-z]+) ", listed, re.MULTILINE)
    assert len(names) > 20
    for name in names:
        summary = (load_command(name).help or "").split("\n")[0]
        assert re.search(rf"^│ {name} +{re.escape(summary)} +│$", listed, re.MULTILINE), name
