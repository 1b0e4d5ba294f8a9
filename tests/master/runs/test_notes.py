"""Notes of runs as HTML."""

import time

import pytest

from mlbench_master.runs import notes

_REL = 'target="_blank" rel="noopener noreferrer"'
_LINK = f'<a href="https://a.example/x_y" {_REL}>'


@pytest.mark.parametrize(
    ("note", "html"),
    [
        ("", ""),
        ("# Why", "<h3>Why</h3>"),
        ("###### deep", "<h6>deep</h6>"),
        ("*a* **b** `<b>`", "<p><em>a</em> <strong>b</strong> <code>&lt;b&gt;</code></p>"),
        ("<img src=x onerror=alert(1)>", "<p>&lt;img src=x onerror=alert(1)&gt;</p>"),
        ("[a](https://a.example/x_y)", f"<p>{_LINK}a</a></p>"),
        ("see https://a.example/x_y", f"<p>see {_LINK}https://a.example/x_y</a></p>"),
        ("`https://a.example`", "<p><code>https://a.example</code></p>"),
        ("![a](https://a.example/x_y)", f"<p>{_LINK}a</a></p>"),
        ("[![a](https://b.example)](https://a.example/x_y)", f"<p>{_LINK}a</a></p>"),
        ("[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>"),
        ("[a](/runs)", "<p>[a](/runs)</p>"),
        ("[a](data:text/html,x)", "<p>[a](data:text/html,x)</p>"),
    ],
)
def test_a_note_is_rendered_without_its_html(note: str, html: str) -> None:
    assert notes.to_html(note).strip() == html


@pytest.mark.parametrize("piece", ["`", "[", "*", "_a", "> ", "- ", "**a", "](", "#", "<", "!["])
def test_pathological_notes_are_rendered_quickly(piece: str) -> None:
    start = time.perf_counter()
    notes.to_html((piece * 10_000)[:10_000])
    assert time.perf_counter() - start < 5
