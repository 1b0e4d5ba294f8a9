"""The machine of a rank: what it runs on and with, as its agent states it in its stream."""

from collections.abc import Sequence
from dataclasses import asdict

from master.models import Rank, Run, Stream
from mlbench.records import StatedMachine


def note_machine(run: Run, stream: Stream, stated: Sequence[StatedMachine]) -> None:
    """Store the machine that a rank's stream states, unless it has stated one before.

    The agent does so before it starts the process, which so cannot take its place.
    """
    if stated:
        Rank.update(machine=asdict(stated[0])).where(
            Rank.run == run,
            Rank.attempt == stream.attempt,
            Rank.rank == stream.rank,
            Rank.machine.is_null(),
        ).execute()
