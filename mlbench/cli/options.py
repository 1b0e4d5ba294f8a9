"""The options that ``run`` and ``bench`` share, and how their values are read."""

import re
from typing import Annotated

import typer

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def read_duration(text: str) -> float:
    """Return the seconds of a time such as ``90``, ``90s``, ``15m`` or ``2h``.

    Raises:
        typer.BadParameter: it is none, or zero.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not seconds:
        raise typer.BadParameter(f"{text!r} is no time: write 3600, 90s, 15m or 2h")
    return seconds


TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="What to run: a benchmark, or a file of your own, e.g. ./train.py; "
        "with --image the command's first word.",
    ),
]
ArgumentsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARGUMENTS",
        help="Of your own code, behind a --. They arrive as they are, but {rank}, {hosts}, "
        "{run_id} and {backend} are filled in.",
    ),
]
NameOption = Annotated[str | None, typer.Option(help="Name of the run.")]
CpusOption = Annotated[int | None, typer.Option(min=1, help="Cores of each worker.")]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Option of a benchmark.")
]
LightOption = Annotated[
    bool, typer.Option("--light", help="Aim for the easier goal; own code is told --light.")
]
BackendOption = Annotated[
    str | None, typer.Option(help="What the workers communicate with, e.g. gloo.")
]
GpuOption = Annotated[bool, typer.Option("--gpu", help="Train on GPUs; own code is told --gpu.")]
RestartsOption = Annotated[int, typer.Option(min=0, help="How often to go on after a failure.")]
DeadlineOption = Annotated[
    float | None,
    typer.Option(
        parser=read_duration, metavar="TIME", help="When training ends at the latest, e.g. 90s, 2h."
    ),
]
ImageOption = Annotated[
    str | None, typer.Option(metavar="IMAGE", help="Run the words as a command in this image.")
]
QueueOption = Annotated[
    bool, typer.Option("--queue", help="Wait for the active run to end, instead of failing.")
]
