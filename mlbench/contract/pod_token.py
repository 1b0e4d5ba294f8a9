"""Tokens of pods: each contains the pod's name, signed with a secret that workers do not know.

The master verifies tokens with that secret. ``python -m mlbench.contract.pod_token FILE`` writes
the token of the pod that it runs in. On a cluster, an init container runs it, because the worker's
container does not get the secret.
"""

import hmac
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.atomic_files import write_atomically

# Names and uids of pods do not contain a slash, and HTTP headers may.
_SEPARATOR = "/"


@dataclass(frozen=True)
class PodIdentity:
    """The pod that a token belongs to."""

    name: str
    uid: str
    """Identifier that distinguishes pods with the same name; empty on the local stack."""


def derive(identity: PodIdentity, secret: str) -> str:
    """Return the token of a pod: ``name/uid/HMAC-SHA256``."""
    return _SEPARATOR.join((identity.name, identity.uid, _sign(identity, secret)))


def identify(token: str, secret: str) -> PodIdentity | None:
    """Return the pod of a token; None if the token was not made with this secret."""
    name, _, rest = token.partition(_SEPARATOR)
    uid, _, signature = rest.partition(_SEPARATOR)
    identity = PodIdentity(name, uid)
    # The comparison takes constant time, so its duration reveals nothing about the signature.
    is_right = hmac.compare_digest(signature.encode(), _sign(identity, secret).encode())
    return identity if is_right else None


def write(path: Path, token: str) -> None:
    """Write a token to a file that only its owner can read (mode 0400)."""
    write_atomically(path, f"{token}\n", mode=0o400)


def read(path: Path) -> str:
    """Return the token in a file. Raises OSError if the file cannot be read."""
    return path.read_text().strip()


def _sign(identity: PodIdentity, secret: str) -> str:
    text = f"{identity.name}\0{identity.uid}"
    return hmac.digest(secret.encode(), text.encode(), "sha256").hex()


def main() -> None:
    """Write the token of the pod in the environment to the file in the first argument."""
    identity = PodIdentity(os.environ[names.ENV_POD], os.environ[names.ENV_POD_UID])
    write(Path(sys.argv[1]), derive(identity, os.environ[names.ENV_AGENT_SECRET]))


if __name__ == "__main__":
    main()
