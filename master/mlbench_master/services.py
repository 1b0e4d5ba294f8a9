"""What resources of routes share. Extensions register further routes, as entry points."""

from collections.abc import Callable
from dataclasses import dataclass

from mlbench_master.openapi.operation import Route
from mlbench_master.reading.series import SeriesReader
from mlbench_master.settings import Settings


@dataclass(frozen=True)
class Services:
    """What the app opens once for all resources."""

    settings: Settings
    reader: SeriesReader


Routes = Callable[[Services], list[Route]]
"""Returns the routes of an extension, as an entry point of ``mlbench.routes``.

A page shows the links to them if the name of the entry point is in its ``extensions``.
"""
