"""Settings of Python, and of its memory, for the two processes of the master."""

import ctypes
import gc
import sys


def tune() -> None:
    """Set how this process collects garbage, switches between its threads, and frees memory."""
    # Collect rarely: there is hardly any cyclic garbage, and with the defaults the collector takes
    # as long as everything else that is done with samples.
    gc.set_threshold(100_000, 50, 100)
    # A thread that waits for the database releases the interpreter, and then waits this long to
    # get it back from a computing thread. The default is 5 ms, for each statement of a poll.
    sys.setswitchinterval(0.0005)
    # glibc would keep much of what a request decodes in one of many threads for later requests of
    # this thread: API and controller took 300 instead of 252 MB after 100 s of a thousand ranks.
    # Other C libraries are left alone.
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mmap_threshold, arena_max = -3, -8  # see malloc.h
        mallopt(mmap_threshold, 128 << 10)
        mallopt(arena_max, 2)
