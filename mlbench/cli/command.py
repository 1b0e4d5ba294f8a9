"""Command class of ``mlbench``: prints errors on one line, with the options as typed."""

import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

from mlbench.cli.common import WRONG_CALL, err
from mlbench.contract.errors import ApiError, MLBenchError
from mlbench.contract.runspec import RunSpec, options_of

# Parameters of commands by the field of the API, where their names differ.
_PARAMETERS = {
    **{name: option.parameter for name, option in options_of(RunSpec).items() if option.flag},
    "until_percent": "until",
    "custom_image_name": "image",
    "custom_image_command": "task",
    "args": "settings",
    "swept": "sweep",
    "slots": "repeats",
    "run_id": "run_name",
    "runs": "run_name",
    "body": "files",
    "fault": "kind",
}
# A message of the API starts with its field. Later words are fields only if they have a "_",
# because the others may be English words.
_FIELD = re.compile(r"(?P<before>^|; )(?P<name>[a-z_]+)(\.(?P<key>[\w-]+))?: ")
_MENTIONED = re.compile(
    rf"\b(?P<name>{'|'.join(name for name in _PARAMETERS if '_' in name)})(=true)?\b"
    r"|\b(?P<of>args|swept)\.(?P<key>[\w-]+)"
)


class Command(TyperCommand):
    """A command that prints an error as one line on stderr and exits with code 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MLBenchError as error:
            text = in_words_of_call(str(error), ctx) if isinstance(error, ApiError) else str(error)
            err.print(f"mlbench: {text}", style="red", soft_wrap=True)
            raise typer.Exit(WRONG_CALL) from None


def in_words_of_call(message: str, ctx: typer.Context) -> str:
    """Return an error message of the API with options as typed instead of field names.

    The field of an argument is left out, because the message contains its value.
    """
    options = {param.name: param for param in ctx.command.params if isinstance(param, TyperOption)}
    arguments = {param.name for param in ctx.command.params} - {*options}

    def option_of(field: str, key: str | None) -> str | None:
        option = options.get(_PARAMETERS.get(field, field))
        if option is None:
            return None
        if key is None:
            return option.opts[0]
        # A typed KEY may have hyphens.
        texts = ctx.params[str(option.name)] or ()
        typed = {text.partition("=")[0].replace("-", "_"): text for text in texts}
        return f"{option.opts[0]} {typed.get(key.replace('-', '_'), f'{key}=')}"

    def name(match: re.Match[str]) -> str:
        parameter = _PARAMETERS.get(match["name"], match["name"])
        if {parameter, f"{parameter}s"} & arguments:
            return match["before"]
        option = option_of(match["name"], match["key"])
        return f"{match['before']}{option}: " if option else match[0]

    def mention(match: re.Match[str]) -> str:
        return option_of(match["name"] or match["of"], match["key"]) or match[0]

    return _MENTIONED.sub(mention, _FIELD.sub(name, message))
