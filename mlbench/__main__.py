"""The command ``mlbench``, and the errors of its surroundings that may end it."""

import atexit
import errno
import gc
import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, without a traceback for Ctrl-C or for output to a full disk."""
    # Looking for cyclic garbage in all that is imported, and again at the end, takes a quarter of a
    # command's time, and finds none.
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    try:
        if sys.argv[1:2] == ["record"] and sys.argv[2:3] != ["--help"]:
            # A command that is recorded waits for nothing that it has no need of.
            from mlbench.tracking.record_command import main as record  # noqa: PLC0415

            record(sys.argv[2:])
        from mlbench.cli import app  # noqa: PLC0415 - it takes a while, in which Ctrl-C may come

        app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        # Discard buffered output, which could not be written either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(f"mlbench: {error.strerror}: the output is not whole")


if __name__ == "__main__":
    main()
