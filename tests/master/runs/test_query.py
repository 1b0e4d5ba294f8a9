"""The language of searches: what is a term, what a word, and what is refused."""

import pytest

from mlbench_master.runs.query import Query, QueryError, Term, parse


@pytest.mark.parametrize(
    ("text", "words", "terms"),
    [
        ("  number\t1\u2003x ", ("number", "1", "x"), ()),
        (
            "exchange=topk accuracy>95 workers>=2 tag:paper some seed!=3",
            ("some",),
            (
                *(("exchange", "=", "topk"), ("accuracy", ">", "95"), ("workers", ">=", "2")),
                *(("tag", ":", "paper"), ("seed", "!=", "3")),
            ),
        ),
        ('val_global_Prec@1<97.5 name="two words"', (), (
            ("val_global_Prec@1", "<", "97.5"), ("name", "=", "two words"),
        )),
        ('"lr=0.1" "" 100%_real 1:2 a"b "', ("lr=0.1", "100%_real", "1:2", 'a"b', '"'), ()),
        ('set="" command="sh ""a b"""', (), (("set", "=", ""), ("command", "=", 'sh "a b"'))),
        ("image=a:b=c", (), (("image", "=", "a:b=c"),)),
    ],
)  # fmt: skip
def test_terms_and_words(text: str, words: tuple[str, ...], terms: tuple[tuple[str, ...]]) -> None:
    assert parse(text) == Query(words, tuple(Term(*term) for term in terms))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a seed= b", 'seed= lacks a value: seed=VALUE, or "seed=" for a word'),
        ("a " * 30 + "a=b " * 21, r"at most 50 terms and words \(not 51\)"),
    ],
)
def test_what_is_no_query(text: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        parse(text)
