"""What a rank runs on and with: the facts that its agent states, and that the API shows."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from master.fields import NO_NUL

_Text = Annotated[str, Field(max_length=1024, pattern=NO_NUL)]
_Bytes = Annotated[int, Field(ge=0, le=2**63 - 1)]


class _Facts(BaseModel):
    """Facts, None for what cannot be told; others that are stated are left out."""

    model_config = ConfigDict(
        strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class GitState(_Facts):
    """The repository that holds a run's code."""

    commit: _Text
    dirty: bool | None = None
    """Whether it has changes that the commit does not."""
    root: _Text | None = None
    """Its folder."""


class Machine(_Facts):
    """What a rank runs on and with."""

    hostname: _Text | None = None
    os: _Text | None = None
    architecture: _Text | None = None
    cpu_model: _Text | None = None
    cpus: _Bytes | None = None
    """Cores that the worker may run on."""
    cpu_limit: float | None = None
    """How many cores' worth of time it may use; None if that is not limited."""
    bandwidth_limit: float | None = None
    """How many Mbit/s it may send; None if that is not limited."""
    memory_bytes: _Bytes | None = None
    memory_limit_bytes: _Bytes | None = None
    """How many of them it may use; None if that is not limited."""
    gpus: list[_Text] = []
    """The models of its GPUs, one entry each."""
    gpu_driver: _Text | None = None
    python: _Text | None = None
    """The version of the Python that the command begins with or its script names.

    For other commands, of the agent's.
    """
    mlbench: _Text | None = None
    packages: dict[_Text, _Text] = {}
    """The distributions that this Python has installed, with their versions."""
    git: GitState | None = None
    """None where the code lies in no repository."""


class StatedMachine(Machine):
    """What a rank runs on and with, and its clock when the process was about to start."""

    clock_offset_seconds: float | None = None
    """By how much it was ahead of the master's."""
    clock_uncertainty_seconds: float | None = None
