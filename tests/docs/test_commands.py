"""Every ``mlbench`` command and every Helm value named in the documentation exists."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlbench.cli import all_commands, load_command

_ROOT = Path(__file__).parents[2]
_PAGES = sorted(
    {
        *(_ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(_ROOT / "docs").rglob("*.md"),
        *(_ROOT / "extensions").rglob("*.md"),
        *(_ROOT / "examples").rglob("*.md"),
        _ROOT / "helm/mlbench/templates/NOTES.txt",
    }
    - {_ROOT / "docs/migrate.md"}  # about the original client's command, also named mlbench
)
_SCHEMA = json.loads((_ROOT / "helm/mlbench/values.schema.json").read_text())
# Variables and launchers may precede `mlbench` in a line of a block.
_COMMAND = re.compile(r"(?:^|[\s;&|(])(?<!login )mlbench ((?:[a-z]+)(?: .*)?)$")
_TOP_LEVEL = "|".join(_SCHEMA["properties"])
_VALUE = re.compile(rf"(?<![\w./-])((?:{_TOP_LEVEL})(?:\.\w+)+)(?![\w(/])")
_END = ("--", "|", ">", "&&", ";")
# Python names and file names that look like values.
_NOT_VALUES = re.compile(r"\.(?:py|yaml|yml|json|md|app|js|build)$|\.example\.")


def _commands(text: str) -> Iterator[str]:
    """Yield the arguments of each `mlbench` command in blocks and in inline code."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            if match := _COMMAND.search(line.split("  #")[0].split(" # ")[0].strip()):
                yield match[1]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for code in re.findall(r"`([^`\n]+)`", prose):
        if match := _COMMAND.match(code):
            yield match[1]


def _problem(command: str) -> str:
    """Return the problem of a command, or an empty string if it is valid."""
    try:
        name, *words = shlex.split(command.replace("…", " "), posix=False)
    except ValueError:  # an unbalanced quote in a partial command
        name, *words = command.split()
    if name not in all_commands():
        return f"there is no mlbench {name}"
    click_command: Any = load_command(name)
    if subcommands := getattr(click_command, "commands", None):
        if not words or words[0] not in subcommands:
            return "" if not words else f"there is no mlbench {name} {words[0]}"
        click_command = subcommands[words[0]]
    options = {
        option for param in click_command.params for option in (*param.opts, *param.secondary_opts)
    }
    for word in words:
        if word in _END or (name in ("run", "record") and word.endswith((".py", "torchrun"))):
            break
        option = word.split("=")[0].rstrip(",;.)")
        if option.startswith("-") and option not in {*options, "--help"}:
            return f"mlbench {name} has no option {option}"
    return ""


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_commands_exist(page: Path) -> None:
    problems = {command: _problem(command) for command in _commands(page.read_text())}
    assert {command: problem for command, problem in problems.items() if problem} == {}


def test_invalid_commands_are_detected() -> None:
    text = (
        "`mlbench strat` and `mlbench run digits --max-restarts 2`\n\n```\nmlbench bench --all\n```"
    )
    assert [bool(_problem(command)) for command in _commands(text)] == [True, True, True]


def _has_value(path: str) -> bool:
    """Return whether the schema of the chart's values has a value."""
    schema: Any = _SCHEMA
    for name in path.split("."):
        while reference := schema.get("$ref"):
            schema = _SCHEMA["definitions"][reference.rpartition("/")[2]]
        properties = schema.get("properties", {})
        if name not in properties:
            # A value with arbitrary keys, such as labels.
            return not properties or isinstance(schema.get("additionalProperties"), dict)
        schema = properties[name]
    return True


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_values_of_the_chart_exist(page: Path) -> None:
    text = page.read_text()
    code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"--set[ =]([\w.]+)=", text)
    named = {value for piece in code for value in _VALUE.findall(piece)}
    values = {value for value in named if not _NOT_VALUES.search(value)}
    values |= {value for value in re.findall(r"--set[ =]([\w.]+)\.[\w.]+=", text) if "." in value}
    assert [value for value in sorted(values) if not _has_value(value)] == []
    for value in re.findall(r"helm [^\n]*--set[ =]([\w.]+)=", text):
        assert _has_value(value), value


def test_invalid_values_are_detected() -> None:
    assert _has_value("exporter.kubelet.insecure")
    assert not _has_value("mlbench_exporter.kubelet.insecure")
    assert not _has_value("master.resource")
