"""The streams of posted samples: each body stored once, however often it is sent.

In SQL, as peewee would take longer to spell these statements than the database to run them: clients
post samples one at a time. Such a stream has attempt 0 and rank -1.
"""

import hashlib
from collections.abc import Sequence

import falcon

from master.database import exclusive, run_sql
from master.recording.group_commit import GroupCommit

_FIND = "SELECT id FROM stream WHERE owner = ? AND attempt = 0 AND rank = -1 AND name = 'posted'"
_OPEN = (
    "INSERT INTO stream (owner, attempt, rank, name, size, delivered, recorded, gap_start, "
    "gap_end) VALUES (?, 0, -1, 'posted', 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING"
)
_GROW = (
    "UPDATE stream SET size = size + ? "
    "WHERE owner = ? AND attempt = 0 AND rank = -1 AND name = 'posted' RETURNING id, size"
)
_ADD_CHUNK = 'INSERT INTO chunk (stream_id, "offset", data) VALUES (?, ?, ?)'
_REMEMBER = (
    "INSERT INTO postedbody (owner, digest) VALUES {} ON CONFLICT DO NOTHING RETURNING digest"
)


def has_posted(owner: str) -> bool:
    """Return whether samples were ever posted for an owner."""
    return run_sql(_FIND, owner).fetchone() is not None


def open_posted(owner: str) -> None:
    """Begin the stream of an owner's posted samples, if there is none."""
    run_sql(_OPEN, owner)


def append_posted(owner: str, lines: bytes) -> None:
    """Add a body's lines to the stream of an owner's posted samples, if they are not there yet.

    Raises:
        falcon.HTTPNotFound: there is no such stream, or no more (404).
    """
    _group.write((owner, lines))


def _append_all(bodies: Sequence[tuple[str, bytes]]) -> None:
    by_owner: dict[str, list[bytes]] = {}
    for owner, lines in bodies:
        by_owner.setdefault(owner, []).append(lines)
    for owner, all_lines in by_owner.items():
        _append(owner, {hashlib.sha256(lines).digest(): lines for lines in all_lines})


def _append(owner: str, bodies: dict[bytes, bytes]) -> None:
    """Store the bodies, by their digest, that are new."""
    with exclusive(owner):
        remember = _REMEMBER.format(", ".join(["(?, ?)"] * len(bodies)))
        values = [value for digest in bodies for value in (owner, digest)]
        new = b"".join([bodies[bytes(row[0])] for row in run_sql(remember, *values).fetchall()])
        if not new:
            return
        grown = run_sql(_GROW, len(new), owner).fetchone()
        if grown is None:
            raise falcon.HTTPNotFound(description=f"there is no {owner.replace('/', ' ')} any more")
        stream_id, size = grown
        run_sql(_ADD_CHUNK, stream_id, size - len(new), new)


_group = GroupCommit(_append_all)
