"""No command prints control characters from other people's data on a terminal."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import mlbench.cli
from mlbench.cli.common import err, out, print_outcome, print_pairs
from mlbench.contract import names
from mlbench.contract.records import Origin, RunFile
from mlbench.local.home import Home
from tests.mlbench.cli.conftest import Mlbench
from tests.support.results import make_manifest, make_result, make_run
from tests.support.scripted import Asked, Reply, answering

_EVIL = "\x1b]0;title\x07\x1b[2J\x9b2J\u202etext"
_HARMFUL = re.compile("\x1b[^[]|\x1b\\[2J|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202e]")
_TIME = "2018-08-03T09:21:29.000000Z"
_ORIGIN = Origin(_EVIL, 1, _TIME)
_RUN = make_run(
    **{"id": 9, "name": "nine", "title": _EVIL, "tags": (_EVIL,), "note": _EVIL, "reason": _EVIL},
    **{"waiting": _EVIL, "launcher": _EVIL, "benchmark": "", "command": _EVIL, "image": _EVIL},
    **{"origin": _ORIGIN, "settings": {_EVIL: _EVIL}, "archive_problem": _EVIL, "backend": _EVIL},
)
_TEXTS = dict.fromkeys(("name", "severity", "text", "runbook", "pod"), _EVIL)
_ALERT = {**_TEXTS, "since": _TIME, "run_id": 9, "rank": 0}
_RUN = replace(_RUN, values={"command": _EVIL})
_RESULT = replace(make_result(9), name="nine", rule_violations=(_EVIL,), clock_faults=(_EVIL,))
_SERIES = {f"{_EVIL} @ 0": [{"date": _TIME, "value": _EVIL}]}
_REPLIES = {
    "/api/runs/": [_RUN.to_fields()],
    "/api/runs/9/": _RUN.to_fields(),
    "/api/runs/9/result/": _RESULT.to_fields(),
    "/api/runs/9/metrics/": _SERIES,
    "/api/metrics/runs/9/": _SERIES,
    "/api/runs/9/files/": [RunFile(0, 1, _EVIL, 7, None, _EVIL, _EVIL).to_fields()],
    "/api/runs/9/manifest/": {**make_manifest(_RUN, _RESULT).to_fields(), "command": _EVIL},
    "/api/runs/counts/": {"runs": 1, "states": {"FINISHED": 1}},
    "/api/runs/fields/": [],
    "/api/pods/": [],
    "/api/alerts/": [_ALERT],
}


def _reply(asked: Asked) -> Reply:
    body = _REPLIES.get(asked.path.partition("?")[0])
    message = {"status": 404, "message": f"nothing at {asked.path} {_EVIL}"}
    return Reply(404, message) if body is None else Reply(body=body)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["status", "9"], ["status"], ["runs", "--columns", "command"], ["metrics", "9"]),
        *(["metrics", "9", "--metric", "loss"], ["files", "9"], ["manifest", "9"]),
        *(["diagnose", "9"], ["stop", "9"], ["export", "9"], ["verify", "9"], ["profile", "9"]),
    ],
    ids=" ".join,
)
def test_no_command_prints_control_characters(tmp_path: Path, arguments: list[str]) -> None:
    with answering(_reply) as master:
        variables = {names.ENV_URL: master.url, names.ENV_TOKEN: "token"}
        mlbench = Mlbench(Home(tmp_path), tmp_path, folder=tmp_path, more=variables)
        with mlbench.on_terminal(*arguments) as terminal:
            terminal.wait()
        done = mlbench(*arguments)
    for text in (terminal.raw, done.out, done.err):
        assert not _HARMFUL.search(text), text
    assert "\\x9b2J" in terminal.raw
    assert "\\x9b2J" in done.out + done.err


def test_the_console_escapes_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(_EVIL, title=_EVIL)
    table.add_row(Text(_EVIL, style="red"))
    for console in (out, err):
        console.print(_EVIL, Text(_EVIL), Padding(_EVIL, 1), table, style="bold")
    print_pairs([(_EVIL, f"{_EVIL}\r")])
    print_outcome({}, _EVIL, as_json=False)
    printed = "".join(capsys.readouterr())
    assert printed.count("\\x9b2J\\u202etext") == 15
    assert not _HARMFUL.search(printed)


def test_commands_print_only_through_the_console() -> None:
    """The exceptions write unescaped output: logs that are piped, and files."""
    others = {"print", "echo", "secho", "Console"}
    found = set()
    for path in Path(mlbench.cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called.rpartition(".")[2] in others and not called.startswith(("out.", "err.")):
                    found.add((path.name, called))
            elif isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.stdout.write":
                found.add((path.name, "sys.stdout.write"))
    # The first one prints the version.
    echoes = {(file, "typer.echo") for file in ("__init__.py", "common.py", "token.py")}
    assert found == {*echoes, ("show.py", "sys.stdout.write")}
