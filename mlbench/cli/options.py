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
        "with --image the first word of a command.",
    ),
]
ArgumentsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARGUMENTS",
        help="Arguments of your own code, behind a --. They arrive as they are, but {rank}, "
        "{hosts}, {run_id} and {backend} are filled in.",
    ),
]
NameOption = Annotated[
    str | None, typer.Option(help="Name of the run; by default TASK's with date and time.")
]
CpusOption = Annotated[
    float | None,
    typer.Option(min=0.001, help="Cores of each worker, e.g. 2; in a cluster also 0.5."),
]
BandwidthOption = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        metavar="MBIT",
        help="What each worker may send, in Mbit/s; in a cluster only.",
    ),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Option of a benchmark, e.g. epochs=3; can be given several times.",
    ),
]
LightOption = Annotated[
    bool, typer.Option("--light", help="Aim for the easier goal; own code is told --light.")
]
BackendOption = Annotated[
    str | None, typer.Option(help="What the workers communicate with, e.g. gloo.")
]
GpuOption = Annotated[bool, typer.Option("--gpu", help="Train on GPUs; own code is told --gpu.")]
RestartsOption = Annotated[
    int, typer.Option(min=0, help="How often to start again after a failure.")
]
DeadlineOption = Annotated[
    float | None,
    typer.Option(
        parser=read_duration,
        metavar="TIME",
        help="End training that long after its start, e.g. 90s, 15m, 2h.",
    ),
]
ImageOption = Annotated[
    str | None,
    typer.Option(
        metavar="IMAGE", help="Run TASK and ARGUMENTS as a command in this image, on a cluster."
    ),
]
QueueOption = Annotated[
    bool, typer.Option("--queue", help="Wait for the active run to end, instead of failing.")
]
