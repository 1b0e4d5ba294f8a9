"""The names of the recording rules."""

from tests.prometheus.reading import read_rules


def recorded_names() -> frozenset[str]:
    """Return what the recording rules call what they compute."""
    return frozenset(read_rules("record"))
