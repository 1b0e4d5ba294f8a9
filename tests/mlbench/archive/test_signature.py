"""SSH signatures: who signed a file, and whether it has changed since."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mlbench.archive import signature
from mlbench.archive.signature import SignatureError

_REASON = "ssh-keygen not found. Install OpenSSH's client"
pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason=_REASON)


def _key(folder: Path, name: str) -> Path:
    key = folder / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)]
    subprocess.run(command, check=True)
    return key


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    file = tmp_path / "runs.mlbench"
    file.write_bytes(b"what was measured")
    assert signature.sign(file, _key(tmp_path, "ada")) == signature.signature_of(file)
    return file


def test_a_signature_identifies_the_signer(signed: Path, tmp_path: Path) -> None:
    trusted = tmp_path / "signers"
    trusted.write_text(f"ada@example.org {(tmp_path / 'ada.pub').read_text()}")
    assert signature.check(signed, trusted) == "ada@example.org"
    assert signature.check(signed).startswith("ED25519 key SHA256:")
    trusted.write_text(f"eve@example.org {_key(tmp_path, 'eve').with_suffix('.pub').read_text()}")
    with pytest.raises(SignatureError):
        signature.check(signed, trusted)


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        ("*@example.org", "ED25519 key SHA256:.*, allowed for \\*@example.org"),
        ("ad?@example.org,!eve@example.org", "ED25519 key SHA256:.*, allowed for ad\\?@.*"),
        ("*@example.org,ada@example.org", "ada@example.org"),
        ("ada@example.org,ada@home", "ada@example.org"),
    ],
)
def test_a_pattern_names_no_signer(signed: Path, tmp_path: Path, listed: str, name: str) -> None:
    trusted = tmp_path / "signers"
    trusted.write_text(f"{listed} {(tmp_path / 'ada.pub').read_text()}")
    assert re.fullmatch(name, signature.check(signed, trusted))


def test_the_signature_of_a_changed_file_is_refused(signed: Path) -> None:
    signed.write_bytes(b"what was better")
    with pytest.raises(SignatureError, match="check-novalidate"):
        signature.check(signed)


def test_an_error_of_ssh_keygen_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SignatureError, match="ssh-keygen -Y sign"):
        signature.sign(tmp_path / "file", tmp_path / "no-key")
    with pytest.raises(SignatureError):
        signature.check(tmp_path / "file")
