"""Signatures of files by SSH keys, as git has them: who it was that wrote a file.

A signature lies beside its file, as ``FILE.sig``. All is done by OpenSSH's ``ssh-keygen -Y``.
"""

import shutil
import subprocess
from pathlib import Path

from mlbench.contract.errors import MLBenchError

_NAMESPACE = "mlbench"
"""A signature for anything else does not hold for a file of ours."""
_PATTERN = {"*", "?", "!"}


class SignatureError(MLBenchError):
    """A file could not be signed, or its signature is not right."""


def signature_of(file: Path) -> Path:
    """Return where the signature of a file lies, if it has one."""
    return file.with_name(f"{file.name}.sig")


def sign(file: Path, key: Path) -> Path:
    """Sign a file with a private key, or the public one of a key that an agent holds."""
    target = signature_of(file)
    target.unlink(missing_ok=True)
    _ssh_keygen("sign", "-f", str(key), str(file))
    return target


def check(file: Path, signers: Path | None = None) -> str:
    """Check the signature beside a file, and return whose it is.

    Args:
        file: what was signed.
        signers: the keys that are trusted, a line ``NAME KEYTYPE KEY`` each (allowed signers of
            ssh-keygen); without, any key will do, and its fingerprint is returned. A line for a
            pattern of names, such as ``*@example.org``, does not say who has the key, so that the
            fingerprint is returned too.

    Raises:
        SignatureError: there is none, the file has changed since, or the key is not trusted.
    """
    signature = ("-s", str(signature_of(file)))
    if signers is None:
        return _fingerprint(file)
    principals = _ssh_keygen("find-principals", *signature, "-f", str(signers)).split()
    if not principals:
        raise SignatureError(f"{signature_of(file)}: the key is none of {signers}")
    persons = [name for name in principals if not _PATTERN & set(name)]
    name = (persons or principals)[0]
    _ssh_keygen("verify", *signature, "-f", str(signers), "-I", name, content=file)
    return name if persons else f"{_fingerprint(file)}, allowed for {','.join(principals)}"


def _fingerprint(file: Path) -> str:
    """Return the fingerprint of the key that a file was signed with."""
    signature = ("-s", str(signature_of(file)))
    output = _ssh_keygen("check-novalidate", *signature, content=file)
    return output.partition(" with ")[2].strip() or output.strip()


def _ssh_keygen(what: str, *arguments: str, content: Path | None = None) -> str:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise SignatureError("ssh-keygen is missing: install OpenSSH's client")
    namespace = [] if what == "find-principals" else ["-n", _NAMESPACE]
    done = subprocess.run(
        [program, "-Y", what, *namespace, *arguments],
        input=content.read_bytes() if content else b"",
        capture_output=True,
        check=False,
    )
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip()
        raise SignatureError(f"ssh-keygen -Y {what}: {message}")
    return done.stdout.decode(errors="replace")
