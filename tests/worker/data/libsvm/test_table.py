"""A file is parsed once, and its rows are stored unchanged and in a fixed order."""

import os
from pathlib import Path

import numpy as np
import pytest

from mlbench_worker.data.libsvm import svmlight_text
from mlbench_worker.data.libsvm.row_blocks import DenseRows, SparseRows
from mlbench_worker.data.libsvm.table import open_table
from mlbench_worker.ranks.rank_process import DataError
from tests.conftest import wait_for
from tests.support.libsvm_files import LabelledRows, make
from tests.support.ranks import finish, start_ranks


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmlight_text, "_BLOCK_BYTES", 2000)


def parsed(path: Path, width: int) -> LabelledRows:
    """Return the rows of a file in their stored order."""
    samples, figures = open_table(path)
    assert figures.width == width
    match samples.rows:
        case DenseRows(values):
            rows = values.double().numpy()
        case SparseRows(values, columns, starts):
            rows = np.zeros((len(samples), width))
            lengths = np.diff(starts.numpy())
            rows[np.arange(len(rows)).repeat(lengths), columns.numpy()] = values.numpy()
    norms2 = (rows**2).sum(axis=1)
    assert figures.largest_norm2 == pytest.approx(norms2.max(), rel=1e-6)
    return LabelledRows(rows, samples.targets.double().numpy())


@pytest.mark.parametrize(("density", "kind"), [(1.0, DenseRows), (0.1, SparseRows)])
def test_all_rows_are_stored_in_the_fixed_order(tmp_path: Path, density: float, kind: type) -> None:
    made = make(300, 20, density=density)
    path = tmp_path / "made"
    path.write_bytes(made.text())
    stored = parsed(path, width=20)
    order = np.argsort(np.random.RandomState(0).permutation(300))
    np.testing.assert_allclose(stored.rows, made.rows[order], rtol=1e-6)
    np.testing.assert_array_equal(stored.labels, made.labels[order])
    assert isinstance(open_table(path)[0].rows, kind)
    # The file is sorted by label, so only a fixed shuffle puts both labels into every block.
    assert (np.diff(made.labels) >= 0).all()
    assert (np.abs(stored.labels.reshape(10, 30).mean(axis=1)) < 0.7).all()


def test_a_malformed_line_is_reported_and_leaves_no_files(tmp_path: Path) -> None:
    path = tmp_path / "made"
    text = make(300, 20).text() + b"1 3:1 2:1\n"
    path.write_bytes(text)
    with pytest.raises(DataError, match=r"made, line 301: Feature indices .* should be sorted"):
        open_table(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["made", "made.lock"]


@pytest.mark.parametrize("text", [b"", b"# nothing\n\n", b"1\n-1\n"])
def test_a_file_without_features_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "made"
    path.write_bytes(text)
    with pytest.raises(DataError, match="made has no features"):
        open_table(path)


_PARSE_SMALL_BLOCKS = """
import sys
from pathlib import Path
from mlbench_worker.data.libsvm import svmlight_text, table
svmlight_text._BLOCK_BYTES = 1000
table.open_table(Path(sys.argv[1]))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "made"
    path.write_bytes(make(200, 10).text())
    return path


def was_parsed(path: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    """Open a file, and return whether it was parsed for that."""
    open_table(path)
    return "putting them together" in capsys.readouterr().out


def test_only_one_of_two_processes_parses(file: Path, tmp_path: Path) -> None:
    outputs = finish(start_ranks(tmp_path, 2, "-m", "mlbench_worker.data.libsvm", str(file)))
    assert "".join(outputs).count("putting them together") == 1
    assert all(f"{file}: 200 rows of 10 features, parsed\n" in output for output in outputs)


def test_a_file_is_parsed_again_only_if_it_changes(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert was_parsed(file, capsys)
    assert not was_parsed(file, capsys)
    assert {path.name for path in file.parent.iterdir()} == {"made", "made.lock", "made.parsed"}
    before, _ = open_table(file)
    file.write_bytes(make(200, 10, seed=1).text())
    assert was_parsed(file, capsys)
    os.utime(file, (0, 0))
    assert was_parsed(file, capsys)
    assert len(before) == 200, "an open table is no longer readable"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("values.npy", b"cut"),
        ("about.json", b"[]"),
        ("about.json", b'{"version": 0}'),
        ("labels.npy", None),
    ],
)
def test_a_damaged_parsed_form_is_replaced(
    file: Path, name: str, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert was_parsed(file, capsys)
    broken = file.parent / "made.parsed" / name
    if content is None:
        broken.unlink()
    else:
        broken.write_bytes(content)
    assert was_parsed(file, capsys)
    assert not was_parsed(file, capsys)


def test_the_draft_of_a_killed_parser_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, draft = tmp_path / "made", tmp_path / "made.parsed.new"
    os.mkfifo(path)  # the pipe never ends while it is open, so the kill comes in the middle
    [parser] = start_ranks(tmp_path, 1, "-c", _PARSE_SMALL_BLOCKS, str(path))
    with path.open("wb") as text:
        text.write(make(200, 10).text())
        text.flush()
        wait_for((draft / "part-3").exists)
        parser.kill()
    assert draft.is_dir()
    assert not (tmp_path / "made.parsed").exists()

    path.unlink()
    path.write_bytes(make(200, 10).text())
    assert was_parsed(path, capsys)
    assert not draft.exists()


def test_a_read_only_folder_is_reported(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file.parent / "made.lock").mkdir()  # root ignores permissions, but cannot write to a folder
    with pytest.raises(DataError, match=r"made\.lock cannot be written .* Parse it once"):
        open_table(file)
    (file.parent / "made.lock").rmdir()
    assert was_parsed(file, capsys)
    (file.parent / "made.lock").unlink()
    (file.parent / "made.lock").mkdir()
    assert not was_parsed(file, capsys), "a parsed file needs no lock"
