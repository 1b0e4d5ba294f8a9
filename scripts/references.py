"""Write the reference pages that are made from the code: ``python -m scripts.references``.

With ``--check``, compare them instead, and exit with 1 if one is out of date.
"""

import sys
from pathlib import Path

from scripts import (
    cli_reference,
    findings_reference,
    helm_reference,
    python_reference,
    series_reference,
)

_DOCS = Path(__file__).parents[1] / "docs"
_PAGES = {
    "cli.md": cli_reference.page,
    "findings.md": findings_reference.page,
    "helm-values.md": helm_reference.page,
    "python-api.md": python_reference.page,
    "series.md": series_reference.page,
}


def main() -> int:
    """Write or compare the pages."""
    outdated = []
    for name, page in _PAGES.items():
        file, text = _DOCS / name, page()
        if "--check" not in sys.argv:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            outdated.append(f"docs/{name}")
    if outdated:
        print(f"{', '.join(outdated)}: out of date. Run python -m scripts.references")
    return bool(outdated)


if __name__ == "__main__":
    sys.exit(main())
