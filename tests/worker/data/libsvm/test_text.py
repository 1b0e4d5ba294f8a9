"""Lines of LIBSVM's format become rows, and what is wrong with a line is said."""

import pytest

from worker.data.folder import DataError
from worker.data.libsvm.text import Lines, parse_lines


def test_lines_become_rows() -> None:
    block = parse_lines(Lines(b"+1 1:0.5 3:-2e-1\n-1\n\n# a note\n2.5 qid:7 2:1 # why\n", "f", 1))
    assert block.labels.tolist() == [1, -1, 2.5]
    assert block.starts.tolist() == [0, 2, 2, 3]
    assert block.columns.tolist() == [0, 2, 1]
    assert block.values.tolist() == pytest.approx([0.5, -0.2, 1])
    assert block.rows_of_entries.tolist() == [0, 0, 2]
    assert block.width == 3


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("yes 1:1", "the label must be a finite number, not 'yes'"),
        ("nan 1:1", "the label must be a finite number, not 'nan'"),
        ("1:1 2:1", "the label must be a finite number, not '1:1'"),
        ("1 0:1", "an index must be from 1 to 2147483647, not 0"),
        ("1 -3:1", "an index must be from 1 to 2147483647, not -3"),
        ("1 2147483648:1", "an index must be from 1 to 2147483647, not 2147483648"),
        ("1 99999999999999999999:1", "an index must be from 1 to 2147483647, not 99999999999"),
        ("1 2:1 1:1", "indices must rise within a line, but 1 comes after 2"),
        ("1 2:1 2:1", "indices must rise within a line, but 2 comes after 2"),
        ("1 1:nan", "the value of feature 1 must be a finite number, not 'nan'"),
        ("1 1:1e39", "the value of feature 1 must be a finite number, not '1e39'"),
        ("1 1:x", "the value of feature 1 must be a finite number, not 'x'"),
        ("1 1:", "the value of feature 1 must be a finite number, not ''"),
        ("1 1", "a feature must be INDEX:VALUE, as in 3:0.5, not '1'"),
        ("1 one:1", "a feature must be INDEX:VALUE, as in 3:0.5, not 'one:1'"),
        ("<html>", "the label must be a finite number, not '<html>'"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: str, wrong: str) -> None:
    text = f"1 1:1\n\n{line}\n1 0:0\n".encode()
    with pytest.raises(DataError) as raised:
        parse_lines(Lines(text, "here/a9a", 101))
    assert f"here/a9a, line 103: {wrong}" in str(raised.value)
