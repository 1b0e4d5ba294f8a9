"""A command of ``mlbench``: its errors are one line in the words of the call, and exit code 2."""

import re
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

from mlbench.cli.common import WRONG_CALL, err
from mlbench.contract.errors import ApiError, MLBenchError
from mlbench.contract.runspec import RunSpec, options_of

# The parameter of commands that becomes a field of the API, where it has another name there.
_PARAMETERS = {
    **{name: option.parameter for name, option in options_of(RunSpec).items() if option.flag},
    "until_percent": "until",
    "custom_image_name": "image",
    "custom_image_command": "task",
    "args": "settings",
    "swept": "sweep",
    "places": "repeats",
    "run_id": "wanted",
    "runs": "wanted",
    "body": "files",
    "fault": "kind",
}
# What is wrong begins with its field. Further on, only what is no English word is one.
_FIELD = re.compile(r"(?P<before>^|; )(?P<name>[a-z_]+)(\.(?P<key>[\w-]+))?: ")
_MENTIONED = re.compile(
    rf"\b(?P<name>{'|'.join(name for name in _PARAMETERS if '_' in name)})(=true)?\b"
    r"|\b(?P<of>args|swept)\.(?P<key>[\w-]+)"
)


class Command(TyperCommand):
    """A command that an error ends with one line on stderr."""

    def invoke(self, ctx: Any) -> Any:
        """Call the function of the command."""
        try:
            return super().invoke(ctx)
        except MLBenchError as error:
            text = in_words_of_call(str(error), ctx) if isinstance(error, ApiError) else str(error)
            err.print(f"mlbench: {text}", style="red", soft_wrap=True)
            raise typer.Exit(WRONG_CALL) from None


def in_words_of_call(message: str, ctx: typer.Context) -> str:
    """Return a refusal of the API with options as they were typed, in place of fields.

    A field that stands for an argument is left out: what was typed is in the sentence.
    """
    options = {param.name: param for param in ctx.command.params if isinstance(param, TyperOption)}
    arguments = {param.name for param in ctx.command.params} - {*options}

    def option_of(field: str, key: str | None) -> str | None:
        option = options.get(_PARAMETERS.get(field, field))
        return f"{option.opts[0]}{_typed(ctx.params[str(option.name)], key)}" if option else None

    def name(match: re.Match[str]) -> str:
        field = match["name"]
        if _PARAMETERS.get(field, field) in arguments:
            return match["before"]
        option = option_of(field, match["key"])
        return f"{match['before']}{option}: " if option else match[0]

    def mention(match: re.Match[str]) -> str:
        return option_of(match["name"] or match["of"], match["key"]) or match[0]

    return _MENTIONED.sub(mention, _FIELD.sub(name, message))


def _typed(texts: Sequence[str] | None, key: str | None) -> str:
    """Return which text ``KEY=VALUE`` of an option has this key, which may have hyphens."""
    if key is None:
        return ""
    keys = {text.partition("=")[0].replace("-", "_"): text for text in texts or ()}
    return f" {keys.get(key.replace('-', '_'), f'{key}=')}"
