"""JSON decoding that keeps the exact value of numbers."""

import math
from typing import Any

import pytest

from mlbench_master.exact_json import loads


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('{"a": [1, 0.5, "b", null, true]}', {"a": [1, 0.5, "b", None, True]}),
        ("18446744073709551617", 2**64 + 1),
        ("9" * 4_300, 10**4_300 - 1),
        ("1e400", "1e400"),
        ("[-1E+999]", ["-1E+999"]),
        ("1e-400", 0.0),
        ("1e308", 1e308),
        ("[Infinity, -Infinity, NaN]", [math.inf, -math.inf, math.nan]),
        (f"{'9' * 400}.5", f"{'9' * 400}.5"),
    ],
)
def test_values(text: str, meant: Any) -> None:
    assert repr(loads(text.encode())) == repr(meant)


@pytest.mark.parametrize("text", [b"", b"{", b"NaN,", b"\xff", b"[" * 900, b"x\n"])
def test_malformed_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message depends on the parser
        loads(text)


def test_a_number_with_too_many_digits_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at most 4300 digits \(got 5001\)"):
        loads(b"1" * 5_001)
