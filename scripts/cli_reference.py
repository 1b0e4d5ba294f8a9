"""Write docs/cli.md: every command of `mlbench` with its arguments and options, from its help."""

import inspect
from collections.abc import Iterator
from typing import Any

from mlbench.cli import all_commands, load_command

_GROUPS = {
    "The stack": (
        *("demo", "up", "down", "open", "grafana", "token"),
        *("backup", "restore", "service"),
    ),
    "Runs": ("run", "stop", "edit", "delete", "prune", "record", "ship", "fault"),
    "Looking at runs": ("status", "runs", "logs", "metrics", "manifest", "files", "download"),
    "Benchmarks": ("benchmarks", "fetch-data", "bench", "watch", "compare"),
    "Finding the cause": ("explain", "whatif", "diagnose", "stacks", "profile"),
    "Sharing results": ("verify", "export", "import", "publish"),
}
# Parameters that the head of the page explains.
_JSON = "Print JSON for programs."
_RUN = "Id or name of a run; the newest if several have the name."
_HEAD = """\
# Command line

`RUN` is the id or the name of a run, of the newest if several have the name. A command with \
`[--json]` can print JSON for programs. The stack keeps its state in `$MLBENCH_HOME`, by default \
`~/.local/share/mlbench`. To use a master elsewhere, set `$MLBENCH_URL` and `$MLBENCH_TOKEN`.

This page is made from the help of the commands (`mlbench COMMAND --help`).
"""


def page() -> str:
    """Return the page; ValueError if a command has no place on it."""
    missing = all_commands().keys() - {name for names in _GROUPS.values() for name in names}
    if missing:
        raise ValueError(f"scripts/cli_reference.py: no group has {', '.join(sorted(missing))}")
    parts = [_HEAD]
    for title, names in _GROUPS.items():
        parts.append(f"\n## {title}\n")
        for name in names:
            parts += _command(f"mlbench {name}", load_command(name))
    return "".join(parts)


def _command(path: str, command: Any) -> Iterator[str]:
    """Yield the section of a command, or those of its subcommands."""
    if commands := getattr(command, "commands", None):
        for name, subcommand in commands.items():
            yield from _command(f"{path} {name}", subcommand)
        return
    params = [param for param in command.params if not getattr(param, "hidden", False)]
    words = [_metavar(param) for param in params if param.param_type_name == "argument"]
    json = [param for param in params if param.opts == ["--json"] and param.help == _JSON]
    yield f"\n### {path}\n"
    if usage := [*("[--json]" for _ in json), *words]:
        yield f"\n`{' '.join([path, *usage])}`\n"
    yield f"\n{inspect.cleandoc(command.help or '').split(chr(12))[0].strip()}\n"
    rows = _rows(command)
    shared = _rows(load_command("run")) if path == "mlbench bench" else {}
    lines = [f"- {names}: {about}\n" for names, about in rows.items() if shared.get(names) != about]
    if lines:
        yield "\n" + "".join(lines)
    if same := [names for names, about in rows.items() if shared.get(names) == about]:
        yield f"\nAs in `mlbench run`: {', '.join(same)}.\n"


def _rows(command: Any) -> dict[str, str]:
    """Return the description of each parameter that the head of the page does not explain."""
    params = [param for param in command.params if not getattr(param, "hidden", False)]
    known = (_JSON, _RUN)
    return dict(_row(param) for param in params if param.name != "help" and param.help not in known)


def _row(param: Any) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    if param.param_type_name == "argument":
        names = f"`{_metavar(param)}`"
    elif not param.is_flag:
        names += f" `{_metavar(param)}`"
    about = " ".join((getattr(param, "help", None) or "").split())
    show_default = getattr(param, "show_default", True)
    if isinstance(show_default, str):
        about += f" Default: {show_default}."
    elif (
        show_default and param.default not in (None, False, (), "") and not callable(param.default)
    ):
        about += f" Default: `{param.default}`."
    if (param.multiple or param.nargs == -1) and "(repeatable)" not in about:
        about += " (repeatable)"
    return names, about


def _metavar(param: Any) -> str:
    name: str = param.metavar or (param.name or "").upper()
    return name
