"""``examples/``: pages show these files, as they are, so that a plain Git host shows them too."""

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
# The link to a file, and the block of code below it.
_SHOWN = re.compile(
    r"\]\((?:\.\./)+(examples/[^)]+)\)[^\n]*\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def test_each_example_is_on_one_page_as_it_is() -> None:
    shown: list[str] = []
    for page in sorted((_ROOT / "docs").rglob("*.md")):
        for name, block in _SHOWN.findall(page.read_text()):
            shown.append(name)
            file = _ROOT / name
            assert block == file.read_text(), f"{page} and {file} differ: copy one into the other"
    files = [path for path in (_ROOT / "examples").rglob("*.*") if path.suffix in {".py", ".sh"}]
    assert sorted(shown) == sorted(str(path.relative_to(_ROOT)) for path in files)
