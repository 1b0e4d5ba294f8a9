"""Hook for schemathesis: replaces each value of an example by values that have found bugs."""

from collections.abc import Iterator, Mapping
from typing import Any

import schemathesis

NESTED: object = 1
for _ in range(300):
    NESTED = [NESTED]

TEXTS = [
    *("", " ", "0", "-1", "1.5", "1e9", "+1", "1_000", "٣", "NaN", "Infinity", "null", "true"),
    *(str(2**31), str(2**63), "9" * 18, "9" * 5_000, "0" * 3_000 + "1", "1e400", "x" * 50_000),
    *("\x00", "\r\n", "'; DROP TABLE run; --", '"} or up{x="', ".*", "../../etc/passwd"),
    *("ü 𝄞", "\u202e", "%", "%zz", "{run_id}", "[]", "{}"),
]
VALUES: list[object] = [
    *("", "1e400", "9" * 5_000, "x" * 50_000, "\x00", "\ud800", "\r\n", "ü 𝄞", "NaN"),
    *(None, True, 0, -1, 1.5, 2**31, 2**63, -(2**63) - 1, 10**30, 10**4_000, 1e308, -1e300),
    *(NESTED, [], [[]], {}, {"metrics": -1}, {"a": {"a": {}}}),
]


@schemathesis.hook
def before_add_examples(
    context: schemathesis.HookContext, examples: list[schemathesis.Case[Any]]
) -> None:
    """Add variants of an operation's first example, each with one odd value."""
    for usual in examples[:1]:
        parts = {
            "path_parameters": dict(usual.path_parameters),
            "query": dict(usual.query),
            "body": usual.body,
        }
        for odd in _odd(parts):
            case: Any = usual.operation.Case(**odd, media_type=usual.media_type)
            examples.append(case)


def _odd(parts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    # Empty texts and texts with slashes would change the path.
    in_path = [text for text in TEXTS if text.strip() and "/" not in text]
    for part, values in (("path_parameters", in_path), ("query", TEXTS), ("body", VALUES)):
        if isinstance(parts[part], dict):
            for name in parts[part]:
                yield from ({**parts, part: {**parts[part], name: value}} for value in values)
