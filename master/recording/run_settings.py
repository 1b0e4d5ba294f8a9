"""A run's settings: what its task runs with, as its streams state it."""

from collections.abc import Sequence

from master.models import Run
from master.recording.samples import Settings


def note_settings(run: Run, stated: Sequence[Settings]) -> None:
    """Store the last settings that a delivered batch states, in place of those before."""
    if stated:
        run.settings = dict(stated[-1].values)
        run.save(only=[Run.settings])
