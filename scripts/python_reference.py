"""Write docs/python-api.md: the public names of ``mlbench``, from their docstrings."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any

import mlbench
from mlbench.client.run_data import Opened, OpenedRun

_HEAD = """\
# Python API

`pip install` of MLBench [without extras](install.md#extras) has `Tracker`, `record` and \
`ApiClient`; `mlbench.open` needs the extra `report`. This page is made from the docstrings.

```python
import mlbench
from mlbench import ApiClient, Tracker
```
"""
_SECTIONS = {
    "Args:": "Arguments:",
    "Raises:": "Raises:",
    "Returns:": "Returns:",
    "Yields:": "Yields:",
}
_CLIENT = """\

`with ApiClient.from_home() as client:` connects to the master that `mlbench status` finds, and \
`ApiClient(url, token)` to another one. A method that returns a `Future` sends its request at \
once: `client.get_run(7).result().value` is the run. Types are in `mlbench.contract`; the \
[REST API](api.md) describes their fields.

"""


def page() -> str:
    """Return the page."""
    parts = [_HEAD, "\n## Tracker\n\n", _prose(mlbench.Tracker), *_members(mlbench.Tracker)]
    parts += ["\n## mlbench.record\n", *_function("mlbench.record", mlbench.record)]
    parts += ["\n## mlbench.open\n", *_function("mlbench.open", mlbench.open)]
    for kind in (Opened, OpenedRun):
        parts += [f"\n### {kind.__name__}\n\n", _prose(kind), *_members(kind)]
    parts += ["\n## ApiClient\n\n", _prose(mlbench.ApiClient), _CLIENT]
    for name, method in inspect.getmembers(mlbench.ApiClient, inspect.isfunction):
        if not name.startswith("_"):
            summary = (inspect.getdoc(method) or "").partition("\n\n")[0]
            call = f"{name}({', '.join(_arguments(method))})"
            parts.append(f"- `{call}`: {_inline(summary)}\n")
    parts += ["\n## MLBenchError\n\n", _prose(mlbench.MLBenchError)]
    return "".join(parts)


def _members(kind: type) -> Iterator[str]:
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            yield from _function(name, member)
        elif isinstance(member, property) or hasattr(member, "func"):
            yield f"\n**`{name}`**: {_prose(member)}"


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    yield f"\n**`{name}({', '.join(_arguments(function))})`**\n\n{_prose(function)}"


def _arguments(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments, with the defaults as they are in the source."""
    [definition] = ast.parse(dedent(inspect.getsource(inspect.unwrap(function)))).body
    assert isinstance(definition, ast.FunctionDef)
    arguments = definition.args
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    text = ast.unparse(arguments)
    return [part for part in text.split(", ") if part not in ("self", "/")]


def _prose(documented: object) -> str:
    """Return a docstring as Markdown: sections become lists, indented blocks become code."""
    blocks = []
    for block in (inspect.getdoc(documented) or "").split("\n\n"):
        title, _, rest = block.partition("\n")
        if title in _SECTIONS:
            entries = re.split(r"\n(?=\S)", dedent(rest))
            blocks.append(f"{_SECTIONS[title]}\n\n" + "\n".join(map(_entry, entries)))
        elif block.startswith("    "):
            blocks.append(f"```python\n{dedent(block).rstrip()}\n```")
        else:
            blocks.append(_inline(block).replace("::", ":"))
    return "\n\n".join(blocks) + "\n"


def _entry(text: str) -> str:
    name, colon, about = text.partition(":")
    return (
        f"- `{name}`{colon}{_inline(about) and ' ' + _inline(about)}"
        if colon
        else f"- {_inline(text)}"
    )


def _inline(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")
