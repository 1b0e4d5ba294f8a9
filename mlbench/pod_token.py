"""A pod's token: it says whose it is, and proves that by a secret which no pod has.

The master holds the secret and knows every pod's token by it. ``python -m mlbench.pod_token FILE``
writes the token of the pod that it runs in: in a cluster an init container does, with the secret
that the worker's own container is not given.
"""

import hashlib
import hmac
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from mlbench import names

# Neither names nor uids of pods have it, and a token of HTTP may.
_BETWEEN = "/"
_ONLY_ITS_OWNER_READS = 0o400


@dataclass(frozen=True)
class PodIdentity:
    """Which pod shows a token."""

    name: str
    uid: str
    """What tells it from a later one of the same name; empty where names are not used again."""


def derive(identity: PodIdentity, secret: str) -> str:
    """Return the token of a pod: ``name/uid/HMAC-SHA256``."""
    return _BETWEEN.join((identity.name, identity.uid, _prove(identity, secret)))


def identify(token: str, secret: str) -> PodIdentity | None:
    """Return whose token this is; nothing for one that this secret did not make."""
    name, _, rest = token.partition(_BETWEEN)
    uid, _, proof = rest.partition(_BETWEEN)
    identity = PodIdentity(name, uid)
    # In a time that tells nothing of the right one.
    is_right = hmac.compare_digest(proof.encode(), _prove(identity, secret).encode())
    return identity if is_right else None


def write(path: Path, token: str) -> None:
    """Write a token to a file that its owner alone can read, in the place of an older one."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _ONLY_ITS_OWNER_READS)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{token}\n")
    draft.replace(path)


def read(path: Path) -> str:
    """Return the token that a file holds.

    Raises:
        OSError: it cannot be read.
    """
    return path.read_text().strip()


def _prove(identity: PodIdentity, secret: str) -> str:
    text = f"{identity.name}\0{identity.uid}"
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def main() -> None:
    """Write the token of the pod that the environment names."""
    identity = PodIdentity(os.environ[names.ENV_POD], os.environ[names.ENV_POD_UID])
    write(Path(sys.argv[1]), derive(identity, os.environ[names.ENV_AGENT_SECRET]))


if __name__ == "__main__":
    main()
