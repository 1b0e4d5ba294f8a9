"""Run options are declared once: API, command line, page and client agree on them."""

import re
from typing import Any, get_type_hints

import pytest
from jinja2 import Environment, PackageLoader

from mlbench.cli import load_command
from mlbench.client import ApiClient
from mlbench.contract.runspec import IMPAIRMENTS, Option, RunOptions, RunSpec, options_of
from mlbench_master.openapi.document import build
from mlbench_master.openapi.operation import Route
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.resources.runs import RunsResource
from mlbench_master.settings import InstallationLimits

OPTIONS = options_of(RunSpec)
NUMBERS = [(name, option) for name, option in OPTIONS.items() if option.is_number]
_IN_SCHEMAS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}


def bounds_of(option: Option) -> dict[str, float]:
    return {name: bound for name in _IN_SCHEMAS if (bound := getattr(option, name)) is not None}


@pytest.fixture(scope="module")
def body() -> dict[str, Any]:
    """Properties of the body of ``POST /api/runs/``."""
    document = build([Route("/api/runs", RunsResource(InstallationLimits(), ArchiveStore("")))])
    properties: dict[str, Any] = document["components"]["schemas"]["RunRequest"]["properties"]
    return properties


@pytest.fixture(scope="module")
def form() -> str:
    """HTML of the form for a new run."""
    environment = Environment(loader=PackageLoader("mlbench_master.web"), autoescape=True)
    environment.globals.update(options=OPTIONS, impairments=IMPAIRMENTS)
    return environment.get_template("_new_run.html").render()


@pytest.mark.parametrize(("name", "option"), NUMBERS)
def test_the_api_states_bounds_and_help_of_each_number(
    name: str, option: Option, body: dict[str, Any]
) -> None:
    said = {key: body[name][of] for key, of in _IN_SCHEMAS.items() if of in body[name]}
    assert said == bounds_of(option)
    assert body[name]["description"] == option.sentence


@pytest.mark.parametrize(("name", "option"), NUMBERS)
def test_the_form_states_bounds_and_help_of_each_number(
    name: str, option: Option, form: str
) -> None:
    tag = re.search(rf'<input id="new-{name}"([^>]*)>', form)
    hint = re.search(rf'id="hint-{name}">([^<]*)<', form)
    assert tag
    assert hint
    limits = dict(re.findall(r'\b(min|max)="([^"]*)"', tag[1]))
    bounds = bounds_of(option)
    # HTML has no exclusive bounds, so the API refuses the bound itself.
    assert float(limits["min"]) == bounds.get("ge", bounds.get("gt"))
    assert {float(most) for most in [limits.get("max")] if most} == {
        bounds[end] for end in ("le", "lt") if end in bounds
    }
    assert hint[1] == option.sentence


def test_the_command_line_has_each_flag_and_its_help() -> None:
    helps = {word: param.help for param in load_command("run").params for word in param.opts}
    flags = {
        option.flag: option.sentence_with_example for option in OPTIONS.values() if option.flag
    }
    assert len(flags) > 9
    assert helps | flags == helps


def test_the_client_takes_every_option() -> None:
    parameters = {*get_type_hints(ApiClient.create_run), *get_type_hints(RunOptions)}
    assert {*get_type_hints(RunSpec)} <= parameters
