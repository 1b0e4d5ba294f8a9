"""``format.js``: numbers, times and sizes as people read them."""

import pytest

from tests.web.js.conftest import Call

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("number(null)", NONE),
        ("number(undefined)", NONE),
        ("number(NaN)", NONE),
        ("number(Infinity)", "∞"),
        ("number(-Infinity)", f"{MINUS}∞"),
        ("number(0)", "0"),
        ("number(0.123456)", "0.1235"),
        ("number(97.5)", "97.5"),
        ("number(1234567.8)", "1,234,568"),
        ("number(0.0000123456)", "1.235e-5"),
        ("count(1234567)", "1,234,567"),
        ("count(null)", NONE),
        ("percent(0.256)", "26 %"),
        ("percent(0.256, 1)", "25.6 %"),
        ("percent(null)", NONE),
        ("duration(null)", NONE),
        ("duration(0)", "0 s"),
        ("duration(0.0034)", "3.4 ms"),
        ("duration(3.4249)", "3.42 s"),
        ("duration(59.96)", "60 s"),
        ("duration(125.4)", "2 min 05 s"),
        ("duration(3599.7)", "1 h 00 min"),
        ("duration(4020)", "1 h 07 min"),
        ("duration(273600)", "3 d 4 h"),
        ("bytes(null)", NONE),
        ("bytes(512)", "512 B"),
        ("bytes(999.7)", "1 kB"),
        ("bytes(1.28e9)", "1.28 GB"),
        ("bytes(-2048)", f"{MINUS}2.05 kB"),
        ("metric('val_global_Prec@1', 97.25)", "97.25 %"),
        ("metric('train_loss', 0.25)", "0.25"),
        ("metric('Prec@1', null)", NONE),
        ("ago('2026-11-21T12:00:00Z', Date.parse('2026-11-21T12:00:01Z'))", "just now"),
        ("ago('2026-11-21T12:00:00Z', Date.parse('2026-11-21T12:00:12Z'))", "12 s ago"),
        ("ago('2026-11-21T12:00:00Z', Date.parse('2026-11-21T15:10:00Z'))", "3 h ago"),
        ("ago('2026-11-21T12:00:05Z', Date.parse('2026-11-21T12:00:00Z'))", "just now"),
        ("moment('2026-11-21T12:34:56.789000Z')", "21 Nov 2026, 13:34:56"),
        ("moment(null)", NONE),
        ("clock('2026-11-21T23:34:56Z')", "00:34:56"),
    ],
)
def test_is_written_so(compute: Call, expression: str, text: str) -> None:
    assert compute("js/format.js", f"(format) => format.{expression}") == text
