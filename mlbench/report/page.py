"""A web page as a file: its template, styles and modules, with responses of the API inside.

The file needs no master and no network. Its modules ask ``js/api.js`` for data, which finds the
responses in the element ``data`` instead.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from posixpath import dirname, normpath
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PackageLoader,
    StrictUndefined,
)
from markupsafe import Markup

from mlbench.contract.buckets import GOOGLE, TITLES
from mlbench.contract.extensions import registered
from mlbench.contract.runspec import IMPAIRMENTS, RunSpec, options_of
from mlbench.evaluation.statistics import CONFIDENCE, t_quantile
from mlbench.local.assets import web_folder

if TYPE_CHECKING:
    from mlbench.report.pages import FilePage

_IMPORTED = re.compile(
    r'^((?:import\b|(?:export \{[^"\n]*)?\} from\b)[^"\n]*")(\.[^"]+)(?=";$)', re.MULTILINE
)
_URL = re.compile(r'url\("(vendor/[^"]+)"\)')
# Characters that neither a data URL, a JSON string nor HTML would change.
_PLAIN = " !$&'()*+,-./:;=?@[]^_`{|}~"
# As many runs as the API compares.
_MAX_RUNS = 200


def render(page: "FilePage", assets: str = "") -> str:
    """Return the page as HTML. ``assets`` is the path of a folder with ``write_assets``' files.

    Without one, the styles and modules are in the page.
    """
    # As in the API, numbers that JSON does not have are null.
    data = msgspec.json.encode({"responses": page.responses, "files": page.files}).decode()
    digest = hashlib.sha256(data.encode()).hexdigest()
    # No text of a run can end the element.
    content = Markup(data.replace("<", r"\u003c"))  # noqa: S704 - JSON without markup
    loaders = (PackageLoader("mlbench.report"), FileSystemLoader(web_folder() / "templates"))
    templates = environment(ChoiceLoader(loaders))
    templates.globals |= {"style": style, "script": script, "icon": _data_url("icon.svg")}
    about = [*page.about, ("data", f"SHA-256 {digest}")] if page.about else []
    return templates.get_template(f"{page.template}.html").render(
        file=page,
        page=page.template,
        data=content,
        about=about,
        assets=assets,
        root="",
        static="",
        **page.variables,
    )


def environment(loader: BaseLoader) -> Environment:
    """Return what renders the templates of the pages."""
    templates = Environment(
        loader=loader,
        autoescape=True,  # names, metrics and settings are the user's
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    buckets = [(bucket, (title, GOOGLE.get(bucket, ""))) for bucket, title in TITLES.items()]
    templates.globals |= {"options": options_of(RunSpec), "impairments": IMPAIRMENTS}
    templates.globals |= {"buckets": buckets, "quantiles": _quantiles}
    templates.globals["extensions"] = frozenset(registered("mlbench.routes"))
    return templates


@cache
def _quantiles() -> list[float]:
    """Return the quantiles of Student's t for means of 2 runs or more."""
    probability = (1 + CONFIDENCE) / 2
    return [round(t_quantile(probability, freedom), 6) for freedom in range(1, _MAX_RUNS)]


# --- Styles and modules ---


def imports_of(path: str, source: str) -> Iterator[str]:
    """Yield the paths of the modules that a module imports."""
    for match in _IMPORTED.finditer(source):
        yield _resolve(path, match[2])


def write_assets(folder: Path) -> str:
    """Write the styles and modules of all pages into a folder in ``folder``; return its name.

    The name is a digest, so that pages of another version keep theirs.
    """
    files = {
        "style.css": style("style") + style("vendor/uPlot.min"),
        "modules.js": script(*(f"js/{page}/main.js" for page in ("compare", "run", "set"))),
    }
    name = hashlib.sha256("".join(files.values()).encode()).hexdigest()[:12]
    (folder / name).mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (folder / name / file).write_text(content, encoding="utf-8")
    return name


def style(name: str) -> Markup:
    """Return a style sheet, with the font that it loads."""
    text = _static(f"{name}.css").read_text(encoding="utf-8")
    return Markup(_URL.sub(lambda match: f'url("{_data_url(match[1])}")', text))  # noqa: S704


def script(*mains: str) -> Markup:
    """Return a script that lets a page import these modules by their paths, from a file, too.

    Browsers load no modules for a page in a file. In an import map, each is a data URL.
    """
    paths = [*mains, "js/file.js", "js/frame.js"]
    urls = {}
    for path in paths:  # grows in the loop
        source = _static(path).read_text(encoding="utf-8")
        paths += [other for other in imports_of(path, source) if other not in paths]
        urls[path] = "data:text/javascript," + quote(_with_paths(path, source), safe=_PLAIN)
    return Markup(  # noqa: S704 - our own modules
        _static("js/theme-first.js").read_text(encoding="utf-8")
        + 'const map = Object.assign(document.createElement("script"), { type: "importmap" });\n'
        + f"map.textContent = JSON.stringify({{ imports: {json.dumps(urls, indent=0)} }});\n"
        + "document.head.append(map);\n"
    )


def _with_paths(path: str, source: str) -> str:
    """Return a module that imports others by their paths: a data URL has no relative ones."""
    return _IMPORTED.sub(lambda match: match[1] + _resolve(path, match[2]), source)


def _resolve(path: str, relative: str) -> str:
    return normpath(f"{dirname(path)}/{relative}")


def _static(path: str) -> Path:
    return web_folder() / "static" / path


def _data_url(path: str) -> str:
    kind = {"svg": "image/svg+xml", "woff2": "font/woff2"}[path.rpartition(".")[2]]
    return f"data:{kind};base64,{base64.b64encode(_static(path).read_bytes()).decode()}"
