"""Files that are replaced atomically."""

import stat
import threading
from pathlib import Path

from mlbench.contract.atomic_files import write_atomically, write_private


def test_a_public_file_becomes_private_when_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert (stat.S_IMODE(path.stat().st_mode), path.read_text()) == (0o600, "new")


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    texts = {"a" * 100_000, "b" * 200_000}
    write_atomically(path, "a" * 100_000)
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            for text in texts:
                write_atomically(path, text)

    writer = threading.Thread(target=write)
    writer.start()
    seen = {path.read_text() for _ in range(300)}
    ended.set()
    writer.join()
    assert seen <= texts
