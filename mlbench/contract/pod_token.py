"""Tokens of pods: each names its pod and is signed with a secret that no worker knows.

The master verifies tokens with that secret. ``python -m mlbench.contract.pod_token FILE`` writes
the token of the pod that it runs in. In a cluster an init container runs it: unlike the worker's
container, it is given the secret.
"""

import hmac
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from mlbench.contract import names
from mlbench.local.home import write_atomically

# No name or uid of a pod contains it, and an HTTP header may.
_SEPARATOR = "/"


@dataclass(frozen=True)
class PodIdentity:
    """The pod that a token belongs to."""

    name: str
    uid: str
    """Tells it from a later pod of the same name; empty on the local stack."""


def derive(identity: PodIdentity, secret: str) -> str:
    """Return the token of a pod: ``name/uid/HMAC-SHA256``."""
    return _SEPARATOR.join((identity.name, identity.uid, _sign(identity, secret)))


def identify(token: str, secret: str) -> PodIdentity | None:
    """Return the pod that a token belongs to, or None if it was not made with this secret."""
    name, _, rest = token.partition(_SEPARATOR)
    uid, _, signature = rest.partition(_SEPARATOR)
    identity = PodIdentity(name, uid)
    # In constant time, so that the duration tells nothing about the right signature.
    is_right = hmac.compare_digest(signature.encode(), _sign(identity, secret).encode())
    return identity if is_right else None


def write(path: Path, token: str) -> None:
    """Write a token to a file that only its owner can read (mode 0400)."""
    write_atomically(path, f"{token}\n", mode=0o400)


def read(path: Path) -> str:
    """Return the token that a file holds; raise OSError if it cannot be read."""
    return path.read_text().strip()


def _sign(identity: PodIdentity, secret: str) -> str:
    text = f"{identity.name}\0{identity.uid}"
    return hmac.digest(secret.encode(), text.encode(), "sha256").hex()


def main() -> None:
    """Write the token of the pod that the environment names."""
    identity = PodIdentity(os.environ[names.ENV_POD], os.environ[names.ENV_POD_UID])
    write(Path(sys.argv[1]), derive(identity, os.environ[names.ENV_AGENT_SECRET]))


if __name__ == "__main__":
    main()
