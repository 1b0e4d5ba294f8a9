"""Hook of ``mkdocs.yml``: add pages from outside ``docs/``, with links as Git hosts want them."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).parents[1]
# Sources of pages by their place on the site. All others are in docs/, examples/ or extensions/.
_ELSEWHERE = {
    "index.md": "README.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "icon.svg": "master/mlbench_master/web/static/icon.svg",
    "search.js": "scripts/docs_search.js",
}
_LINK = re.compile(r"(?P<label>!?\[(?P<text>[^]]*)\])\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]+)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that are outside ``docs/``."""
    examples = (path for path in (_ROOT / "examples").rglob("*.*") if path.is_file())
    pages = _ROOT.glob("extensions/*/docs/*")
    outside = {str(path.relative_to(_ROOT)): str(path) for path in (*examples, *pages)}
    sources = _ELSEWHERE | outside
    for place, source in sources.items():
        files.append(File.generated(config, place, abs_src_path=str(_ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to their place on the site; what the site lacks has no link, but its text."""
    if page.file.src_uri == "CHANGELOG.md":  # it has all words, and would be found first
        page.meta["search"] = {"exclude": True}
    elif page.file.src_uri.startswith("decisions/"):  # tasks and concepts come first
        page.meta["search"] = {"boost": 0.5}
    folder = posixpath.dirname(_source(page.file.src_uri))
    places = {_source(file.src_uri): file.src_uri for file in files}

    def lead(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link["path"]))
        if target in places:
            start = posixpath.dirname(page.file.src_uri)
            path = posixpath.relpath(places[target], start)
            return f"{link['label']}({path}{link['anchor'] or ''})"
        # Keep a broken link, so that mkdocs reports it.
        return link["text"] if (_ROOT / target).exists() else link[0]

    return _LINK.sub(lead, markdown)


def _source(place: str) -> str:
    """Return the path of a file of the site in the repository."""
    if place in _ELSEWHERE or place.startswith(("examples/", "extensions/")):
        return _ELSEWHERE.get(place, place)
    return f"docs/{place}"
