"""Signatures of files with SSH keys, as in git: they prove who wrote a file.

The signature of ``FILE`` is in ``FILE.sig``. OpenSSH's ``ssh-keygen -Y`` signs and verifies.
"""

import shutil
import subprocess
from pathlib import Path

from mlbench.contract.errors import MLBenchError


class SignatureError(MLBenchError):
    """A file cannot be signed, or its signature is not valid."""


def signature_of(file: Path) -> Path:
    """Return the path of a file's signature, whether it exists or not."""
    return file.with_name(f"{file.name}.sig")


def sign(file: Path, key: Path) -> Path:
    """Sign a file with a private key, or with a public key whose private key ssh-agent holds."""
    target = signature_of(file)
    target.unlink(missing_ok=True)
    _ssh_keygen("sign", "-f", str(key), str(file))
    return target


def check(file: Path, signers: Path | None = None) -> str:
    """Verify the signature of a file, and return the name or the fingerprint of its signer.

    Args:
        file: the signed file.
        signers: file with the trusted keys, a line ``NAME KEYTYPE KEY`` each (ssh-keygen's allowed
            signers). Without it, every key is accepted, and its fingerprint is returned. If the
            name is a pattern, such as ``*@example.org``, the fingerprint is returned too.

    Raises:
        SignatureError: the signature is missing, the file has changed, or the key is not trusted.
    """
    signature = ("-s", str(signature_of(file)))
    if signers is None:
        return _fingerprint(file)
    principals = _ssh_keygen("find-principals", *signature, "-f", str(signers)).split()
    if not principals:
        raise SignatureError(f"{signature_of(file)}: the key is none of {signers}")
    persons = [name for name in principals if not {"*", "?", "!"} & set(name)]
    name = (persons or principals)[0]
    _ssh_keygen("verify", *signature, "-f", str(signers), "-I", name, content=file)
    return name if persons else f"{_fingerprint(file)}, allowed for {','.join(principals)}"


def _fingerprint(file: Path) -> str:
    """Verify the signature of a file, and return the fingerprint of its key."""
    signature = ("-s", str(signature_of(file)))
    output = _ssh_keygen("check-novalidate", *signature, content=file)
    return output.partition(" with ")[2].strip() or output.strip()


def _ssh_keygen(action: str, *arguments: str, content: Path | None = None) -> str:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise SignatureError("ssh-keygen is missing: install OpenSSH's client")
    # With a namespace of our own, signatures for other purposes are not valid for archives.
    namespace = [] if action == "find-principals" else ["-n", "mlbench"]
    done = subprocess.run(
        [program, "-Y", action, *namespace, *arguments],
        input=content.read_bytes() if content else b"",
        capture_output=True,
        check=False,
    )
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip()
        raise SignatureError(f"ssh-keygen -Y {action}: {message}")
    return done.stdout.decode(errors="replace")
