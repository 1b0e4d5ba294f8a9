"""Users of an installation, and the roles of their tokens. Standard library only."""

import os
import pwd
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import quote, unquote

from mlbench.contract import names

Role = Literal["read", "run", "record", "admin"]
"""What a token allows:

- ``read``: see all runs
- ``run``: also submit runs, and change the user's own runs
- ``record``: record external jobs, and nothing else
- ``admin``: everything
"""
USER_HEADER: Final = "X-MLBench-User"
"""Header in which clients name their user, for tokens without a user of their own."""
# Names are labels of series, and columns of lists.
MAX_USER_LENGTH: Final = 100


def own_user(environ: Mapping[str, str] = os.environ) -> str:
    """Return $MLBENCH_USER, or the name of this process's user; empty if it has no name."""
    try:
        name = environ.get(names.ENV_USER) or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""
    return clean_user(name)


def clean_user(name: str) -> str:
    """Return a name that fits on a line: without control characters, and not too long."""
    return "".join(filter(str.isprintable, name)).strip()[:MAX_USER_LENGTH]


def encode_user(name: str) -> str:
    """Return a name as the value of ``USER_HEADER``."""
    return quote(name)


def decode_user(value: str) -> str:
    """Return the name in the value of ``USER_HEADER``."""
    return clean_user(unquote(value))
