"""How processes end, in words."""

import signal


def describe_exit(exit_code: int) -> str:
    """Return an exit code in words: a negative one is the signal that killed the process."""
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    try:
        return f"was killed by signal {-exit_code} ({signal.Signals(-exit_code).name})"
    except ValueError:
        return f"was killed by signal {-exit_code}"
