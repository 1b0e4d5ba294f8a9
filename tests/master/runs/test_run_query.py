"""The search language: terms, words and errors."""

import pytest

from mlbench_master.runs.run_query import QueryError, Term, parse


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
def test_terms_and_words(
    text: str, words: tuple[str, ...], terms: tuple[tuple[str, str, str], ...]
) -> None:
    read = [clause[0] for clause in parse(text).clauses]
    assert tuple(term.value for term in read if not term.field) == words
    assert [term for term in read if term.field] == [Term(*term) for term in terms]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("accuracy > 95 some", 'accuracy>95 and "some"'),
        ('name = "two words" workers>= 2', "name=two words and workers>=2"),
        ("a b:c d", '"a" and b:c and "d"'),
        ("a OR b=1 c", '("a" or b=1) and "c"'),
        ("a OR NOT b OR c", '"a" or not "b" or "c"'),
        ("NOT state:failed NOT NOT x", 'not state:failed and "x"'),
        ('"OR" "NOT" or not', '"OR" and "NOT" and "or" and "not"'),
        ("", ""),
    ],
)
def test_a_parsed_query_as_text(text: str, meaning: str) -> None:
    assert str(parse(text)) == meaning


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a seed=", 'seed= lacks a value. Write seed=VALUE, or "seed=" for a word.'),
        ("a tag: b", 'tag: lacks a value. Write tag:VALUE, or "tag:" for a word.'),
        ("a OR", 'OR requires a term beside it. Write "OR" to search'),
        ("OR a", "OR requires a term beside it"),
        ("a OR OR b", "OR requires a term beside it"),
        ("a NOT", "NOT requires a term beside it"),
        ("a " * 30 + "a=b " * 21, r"must have at most 50 terms and words \(got 51\)"),
    ],
)
def test_invalid_queries_are_refused(text: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        parse(text)
