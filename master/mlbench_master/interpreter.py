"""Settings of Python for the two processes of the master, which handle many small objects."""

import gc
import sys

# Objects that are made between two looks for cycles of garbage, of which there are next to none. By
# default, looking for them takes as long as all else that is done with samples.
_GARBAGE = (100_000, 50, 100)
# A thread that waits for the database gives the interpreter away, and waits for so long to have it
# back from one that computes: by default 5 ms, for each of the statements of a poll.
_SWITCH_SECONDS = 0.0005


def tune() -> None:
    """Set how this process collects garbage and switches between its threads."""
    gc.set_threshold(*_GARBAGE)
    sys.setswitchinterval(_SWITCH_SECONDS)
