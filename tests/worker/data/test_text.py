"""Texts are split and numbered as their data sets require."""

import hashlib
from pathlib import Path

import pytest
import torch

from mlbench_worker.data.text import Tokens, load_texts
from mlbench_worker.ranks.rank_process import DataError
from tests.support.texts import write_addresses

_ADDRESSES = {
    1789: "We, the people: the law's the law!",
    1790: "The law of 1790.",
    1791: "the people",
}


def lists(tokens: Tokens) -> tuple[list[int], list[int]]:
    return tokens.train.tolist(), tokens.validation.tolist()


def test_addresses_become_words_and_marks_with_one_token_for_rare_words(tmp_path: Path) -> None:
    write_addresses(tmp_path, _ADDRESSES)
    words = load_texts("sotu", tmp_path).as_words(least=2)
    # "the" occurs 4 times; <eos>, "law" and "people" occur twice. All other words become <unk>.
    the, end, law, people, rare = range(5)
    train = [rare, rare, the, people, rare, the, law, rare, rare, the, law, rare, end]
    assert lists(words) == ([*train, the, people, end], [rare, law, rare, rare, rare, end])
    assert words.vocabulary == 5


def test_every_tenth_year_is_for_validation(tmp_path: Path) -> None:
    write_addresses(tmp_path, _ADDRESSES)
    texts = load_texts("sotu", tmp_path)
    assert (texts.train, texts.validation) == (
        (_ADDRESSES[1789], _ADDRESSES[1791]),
        (_ADDRESSES[1790],),
    )
    files = sorted((tmp_path / "sotu").iterdir())
    assert texts.sha256 == hashlib.sha256(b"".join(map(Path.read_bytes, files))).hexdigest()


def test_each_address_ends_with_a_newline_byte(tmp_path: Path) -> None:
    write_addresses(tmp_path, {1790: "é", 1791: "a"})
    assert lists(load_texts("sotu", tmp_path).as_bytes()) == ([*b"a\n"], [*"é\n".encode()])


def test_wikitext_is_split_at_blanks_and_has_an_end_token_per_line(tmp_path: Path) -> None:
    (tmp_path / "wikitext-2").mkdir()
    (tmp_path / "wikitext-2" / "wiki.train.tokens").write_text(" \n = A <unk> @-@ b = \n \n")
    (tmp_path / "wikitext-2" / "wiki.valid.tokens").write_text(" = A = \n")
    words = load_texts("wikitext-2", tmp_path).as_words(least=1)
    end, equals, rare, minus, a, b = range(6)
    train = [end, equals, a, rare, minus, b, equals, end, end]
    assert lists(words) == (train, [equals, a, equals, end])
    assert words.train.dtype == torch.int64


@pytest.mark.parametrize(
    ("dataset", "said"),
    [("sotu", "mlbench fetch-data"), ("wikitext-2", "wiki.train.tokens cannot be read")],
)
def test_a_missing_data_set_is_reported_with_its_path(
    dataset: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=f"{tmp_path / dataset}.*|{said}") as raised:
        load_texts(dataset, tmp_path)  # type: ignore[arg-type]
    assert said in str(raised.value)


def test_a_malformed_address_is_reported_with_its_path(tmp_path: Path) -> None:
    write_addresses(tmp_path, _ADDRESSES)
    (tmp_path / "sotu" / "1800.json").write_text('{"year": 1800}')
    with pytest.raises(DataError, match=r"1800\.json is no address with a year and a text"):
        load_texts("sotu", tmp_path)
