"""How processes end, in words."""

import pytest

from master.exits import describe_exit


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "exited with code 1"),
        (137, "exited with code 137"),
        (-9, "was killed by signal 9 (SIGKILL)"),
        (-11, "was killed by signal 11 (SIGSEGV)"),
        (-99, "was killed by signal 99"),
    ],
)
def test_exit_codes_are_put_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words
