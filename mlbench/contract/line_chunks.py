"""Chunks of streams that consist of lines, such as a rank's metrics file."""


def whole_lines(data: bytes) -> bytes:
    """Return the data up to its last line end."""
    return data[: data.rfind(b"\n") + 1]
