"""The files of ``-o``: a comparison as JSON, CSV, Markdown or HTML, by the end of their names."""

import json
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from mlbench.cli.common import WrongCallError, out
from mlbench.client import ApiClient
from mlbench.report import csv, markdown
from mlbench.report.manifest import Fact, facts
from mlbench.results import Comparison

_KINDS = (".json", ".csv", ".md", ".html")
# What the extra `report` installs.
_NEEDED_BY_HTML = ("jinja2", "matplotlib")

OutputsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write it to a file too: .json, .csv, .md or .html; can be given several times.",
    ),
]


def check(files: Iterable[Path]) -> None:
    """Make sure, before anything else is done, that files can be written.

    Raises:
        WrongCallError: one cannot.
    """
    for file in files:
        if file.suffix.lower() not in _KINDS:
            raise WrongCallError(f"-o {file}: its name ends with none of {', '.join(_KINDS)}")
        if file.is_dir():
            raise WrongCallError(f"-o {file}: it is a folder")
        if not file.absolute().parent.is_dir():
            raise WrongCallError(f"-o {file}: there is no folder {file.parent}")
        if file.suffix.lower() == ".html" and not all(map(find_spec, _NEEDED_BY_HTML)):
            raise WrongCallError(
                f"-o {file}: needs {' and '.join(_NEEDED_BY_HTML)}: pip install 'mlbench[report]'"
            )


def write(
    files: Sequence[Path],
    comparison: Comparison,
    client: ApiClient,
    left_out: int = 0,
) -> None:
    """Write a comparison to files, with what the first run's manifest says of its machines.

    Args:
        files: where to.
        comparison: what to write.
        client: asked for the manifest.
        left_out: how many runs of a set did not finish, and are not compared.

    Raises:
        WrongCallError: a file cannot be written.
    """
    if not files:
        return
    manifest = client.get_manifest(comparison.results[0].run_id).result().value
    for file in files:
        text = _render(file.suffix.lower(), comparison, facts(manifest), left_out)
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise WrongCallError(f"-o {file}: {error.strerror or error}") from None


def to_fields(comparison: Comparison, left_out: int) -> dict[str, Any]:
    """Return a comparison as JSON holds it, with how many runs of a set it leaves out."""
    return {**comparison.to_fields(), "left_out": left_out}


def tell(files: Iterable[Path]) -> None:
    """Print what was written."""
    for file in files:
        out.print(f"written: {file}", soft_wrap=True)


def _render(kind: str, comparison: Comparison, environment: tuple[Fact, ...], left_out: int) -> str:
    match kind:
        case ".json":
            return json.dumps(to_fields(comparison, left_out), indent=2) + "\n"
        case ".csv":
            return csv.render(comparison)
        case ".md":
            return markdown.render(comparison, environment, left_out)
        case _:
            # matplotlib takes a second to load, and is not everybody's.
            from mlbench.report import html  # noqa: PLC0415

            return html.render(comparison, environment, left_out)
