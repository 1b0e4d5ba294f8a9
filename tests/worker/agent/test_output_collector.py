"""A rank's output folder is packed unchanged, whatever kinds of files it contains."""

import hashlib
import os
from pathlib import Path

import pytest

from mlbench.contract.output import MAX_FILE_BYTES, MAX_FILES, OutputList
from mlbench_worker.agent import output_collector
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.training_process import Exit
from tests.support.known import known


def read(attempt: Attempt) -> tuple[OutputList, dict[str, bytes]]:
    """Read the pack as it would be shipped."""
    stream = attempt.streams["files"]
    whole = stream.read(0, stream.size())
    listed, start = OutputList.read(whole), whole.index(b"\n") + 1
    contents = {
        file.name: whole[start + position : start + position + file.size]
        for file, position in listed.positions()
        if not file.left
    }
    return listed, contents


def pack(attempt: Attempt) -> tuple[OutputList, dict[str, bytes]]:
    """End an attempt, and read the pack."""
    attempt._note_exit(Exit(0, 0.0))
    return read(attempt)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_small_files_are_packed_and_a_large_one_stays(attempt: Attempt) -> None:
    model = b"m" * (MAX_FILE_BYTES + 1)
    (attempt.output / "plots").mkdir()
    (attempt.output / "plots" / "løss.png").write_bytes(b"\x89PNG\n")
    (attempt.output / "empty.txt").touch()
    (attempt.output / "model.pt").write_bytes(model)
    listed, contents = pack(attempt)
    assert contents == {"empty.txt": b"", "plots/løss.png": b"\x89PNG\n"}
    assert {file.name: file.sha256 for file in listed.files} == {
        **{name: sha256(content) for name, content in contents.items()},
        "model.pt": sha256(model),
    }
    assert [(file.name, file.left) for file in listed.files if file.left] == [
        ("model.pt", "it has more than 1 MiB")
    ]
    words = attempt.file("stderr").read_text()
    assert words == f"1 files in $MLBENCH_OUTPUT stay where they are: {attempt.output}\n"
    attempt.forget()
    assert (Path(listed.folder) / "model.pt").read_bytes() == model


def test_a_completely_packed_folder_is_removed(attempt: Attempt) -> None:
    (attempt.output / "report.txt").write_text("fine")
    attempt._note_exit(Exit(0, 0.0))
    attempt.forget()
    assert not attempt.output.exists()


def test_the_next_agent_packs_the_output_of_a_killed_agent(attempt: Attempt) -> None:
    (attempt.output / "a").write_text("1")
    resumed = known(Attempt.resume(attempt.folder.parent))
    packed = read(resumed)
    assert packed[1] == {"a": b"1"}
    (attempt.output / "a").write_text("2")  # the pack may be shipped in part, so it must not change
    assert read(known(Attempt.resume(attempt.folder.parent))) == packed


def test_links_pipes_and_unprintable_names_are_not_packed(attempt: Attempt, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    folder = attempt.output
    (folder / "link").symlink_to(secret / "key")
    (folder / "folder").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    (folder / "bell\x07\n").write_text("x")
    Path(os.fsdecode(bytes(folder) + b"/\xff")).write_text("x")
    listed, contents = pack(attempt)
    assert contents == {}
    assert [file.name for file in listed.files] == ["bell??", "?"]
    assert all("printable" in file.left for file in listed.files)


def test_number_and_bytes_are_bounded(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_collector, "MAX_BYTES", 10)
    monkeypatch.setattr(output_collector, "_MAX_DIGESTED_BYTES", 9)
    (attempt.output / "a").write_bytes(b"123456")
    (attempt.output / "b").write_bytes(b"12345")
    (attempt.output / "c").write_bytes(b"67890")
    for number in range(MAX_FILES):
        (attempt.output / f"file-{number}").touch()
    listed, contents = pack(attempt)
    assert (len(listed.files), listed.more) == (MAX_FILES, 3)
    assert b"".join(contents.values()) == b"123456"
    _, b, c, *_ = listed.files
    assert (b.left, b.sha256) == ("more than 0 MiB in all", sha256(b"12345"))
    assert (c.left, c.sha256) == (f"{b.left}; no digest: more than 0 GiB in all", None)
    assert "5 files" in attempt.file("stderr").read_text()


def test_the_search_of_a_large_tree_is_limited(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_collector, "_MAX_LOOKED_AT", 20)
    deep = attempt.output.joinpath(*["deep"] * 12)
    deep.mkdir(parents=True)
    (deep / "unreached").touch()
    for number in range(30):
        (attempt.output / f"wide-{number:02}").touch()
    listed, contents = pack(attempt)
    assert all(name.startswith("wide-") for name in contents)
    assert 0 < len(contents) <= 20
    assert listed.more == 1
