"""Settings of Python for the two processes of the master, which handle many small objects."""

import gc
import sys


def tune() -> None:
    """Set how this process collects garbage and switches between its threads."""
    # Collect rarely: there is hardly any cyclic garbage, and with the defaults the collector takes
    # as long as everything else that is done with samples.
    gc.set_threshold(100_000, 50, 100)
    # A thread that waits for the database releases the interpreter, and then waits this long to
    # get it back from a computing thread. The default is 5 ms, for each statement of a poll.
    sys.setswitchinterval(0.0005)
