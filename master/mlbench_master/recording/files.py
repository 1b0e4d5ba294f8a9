"""Files that ranks leave in their output folders: a stream for each rank, a list and the contents.

The files of an attempt have a common limit. If a rank exceeds it, only its list is stored; the rest
is a gap, as in a long log.
"""

from mlbench.contract.names import StreamName
from mlbench.contract.output import MAX_BYTES, MAX_LIST_BYTES
from mlbench_master.database.connection import exclusive, run_sql, store
from mlbench_master.database.models import Chunk
from mlbench_master.errors import BadFieldError
from mlbench_master.recording import streams
from mlbench_master.recording.streams import StreamKey

FILES: StreamName = "files"
# Sum of the final sizes of the other packs, so that ranks that ship simultaneously share the limit.
_OTHERS = """
    SELECT COALESCE(SUM(COALESCE(final_size, size) - gap_end + gap_start), 0) FROM stream
    WHERE owner = ? AND attempt = ? AND name = ? AND rank <> ?
"""


def append(key: StreamKey, offset: int, data: bytes, written: int) -> int:
    """Store the part of ``data`` that is new, and return the offset to send next.

    ``written`` is the length of the pack, which does not grow any more. Of a pack that exceeds the
    limit, only the list is stored.

    Raises:
        BadFieldError: the pack does not begin with a line.
    """
    if offset == 0 and data:
        end = data.find(b"\n", 0, MAX_LIST_BYTES) + 1
        if not end:
            raise BadFieldError("body", "files begin with the line that lists them")
        with exclusive(key.owner):
            stream = streams.find_or_create(key)
            if not stream.size and stream.final_size != 0:  # neither begun nor given up
                # A separate chunk, because the list is read alone.
                Chunk.create(stream=stream, offset=0, data=data[:end])
                size = stream.final_size or max(written, len(data))
                [others] = run_sql(_OTHERS, key.owner, key.attempt, FILES, key.rank).fetchone()
                if others + size <= MAX_BYTES + MAX_LIST_BYTES:
                    store(stream, final_size=size, size=end)
                else:
                    store(stream, final_size=size, size=size, gap_start=end, gap_end=size)
    return streams.append(key, offset, data)
