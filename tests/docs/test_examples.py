"""``examples/``: pages contain these files verbatim, so that any Git host shows them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[2]
# A link to a file, followed by a code block.
_SHOWN = re.compile(
    r"\]\((?:\.\./)+(examples/[^)]+)\)[^\n]*\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def test_each_example_is_on_one_page_verbatim() -> None:
    examples: list[str] = []
    for page in sorted([*_ROOT.glob("docs/**/*.md"), *_ROOT.glob("extensions/*/docs/*.md")]):
        for name, block in _SHOWN.findall(page.read_text()):
            examples.append(name)
            file = _ROOT / name
            assert block == file.read_text(), f"{page} and {file} differ: copy one into the other"
    files = [path for path in (_ROOT / "examples").rglob("*.*") if path.suffix in {".py", ".sh"}]
    assert sorted(examples) == sorted(str(path.relative_to(_ROOT)) for path in files)


def test_all_cells_of_the_notebook_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notebook = _ROOT / "examples" / "notebook" / "runs.ipynb"
    monkeypatch.chdir(notebook.parent)
    scope: dict[str, Any] = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), scope)  # noqa: S102 - it is ours
    assert len(scope["best"]) == len(scope["opened"].runs)
    assert all(scope["best"] > 70)
    assert list(scope["spread"].index) == sorted(scope["spread"].index)
