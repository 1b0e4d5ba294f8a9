"""Report pages: their data, their metadata, and escaping of markup."""

import hashlib
import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from mlbench.contract.comparisons import Comparison
from mlbench.report.page import render, script
from mlbench.report.pages import RunDocuments, comparison_page, curves_among, max_points
from tests.support import results
from tests.support.known import known


def page_of(comparison: Comparison) -> str:
    """Return the page of a comparison whose runs have no recorded curves."""
    runs = {}
    for result in comparison.results:
        run = results.make_run(id=result.run_id, name="run", display_name=result.name)
        manifest = replace(results.make_manifest(run, result), seed=3)
        runs[result.run_id] = RunDocuments(run, manifest, {}, "ab" * 32)
    return render(comparison_page(comparison, runs))


def data_of(page: str) -> str:
    [data] = re.findall(r'<script type="application/json" id="data"[^>]*>(.*?)</script>', page)
    return str(data)


def test_a_page_contains_api_responses() -> None:
    comparison = results.make_matrix((1, 2), 1)
    page = page_of(comparison)
    responses: dict[str, Any] = json.loads(data_of(page))["responses"]
    same = json.loads(json.dumps(comparison.to_fields()))
    assert responses["/api/compare/?runs=1,2"] == same
    assert responses["/api/runs/1/manifest/"]["seed"] == 3
    assert responses["/api/runs/2/"]["title"] == same["results"][1]["name"]
    assert 'data-address="?runs=1,2"' in page


def test_a_page_describes_its_runs_for_citation() -> None:
    page = page_of(results.make_matrix((1, 2), 1))
    facts = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    digest = hashlib.sha256(data_of(page).replace(r"\u003c", "<").encode()).hexdigest()
    assert facts["data"] == f"SHA-256 {digest}"
    assert facts["runs"].startswith("1 (digits-w1-r1, archive abababababab), 2 (digits-w2-r1,")
    assert facts["comparison"].startswith("digits on 1, 2 workers; 2 runs, target: ")
    assert facts["seeds" if "seeds" in facts else "seed"] == "3"
    assert "MLBench" in facts["recorded by"]


def test_numbers_that_json_cannot_represent_are_null() -> None:
    result = replace(results.make_result(1), last_value=float("nan"))
    data = json.loads(data_of(page_of(results.make_comparison([result]))))
    [found] = data["responses"]["/api/compare/?runs=1"]["results"]
    assert found["last_value"] is None


def test_user_input_is_escaped() -> None:
    evil = "</script><script>alert(1)</script>"
    result = results.make_result(1)
    target = replace(known(result.target), metric=evil)
    result = replace(result, name=evil, benchmark=evil, rule_violations=(evil,), target=target)
    page = page_of(results.make_comparison([result]))
    assert evil not in page
    assert json.loads(data_of(page))["responses"]["/api/runs/1/"]["title"] == evil


def test_modules_import_each_other_by_path() -> None:
    text = script("js/compare/main.js")
    [urls] = re.findall(r"imports: (\{.*\}) \}\);\ndocument", text, re.DOTALL)
    modules = {path: unquote(url.partition(",")[2]) for path, url in json.loads(urls).items()}
    assert {"js/compare/main.js", "js/api.js", "js/source.js", "vendor/uPlot.esm.js"} <= {*modules}
    for path, source in modules.items():
        imports = re.findall(r'^(?:import\b|\} from\b)[^"\n]*"([^"]+)";$', source, re.MULTILINE)
        assert {*imports} <= {*modules}, path
        assert not re.search(r'^(?!/| \*).*from "\.', source, re.MULTILINE), path


def test_curves_are_of_the_lowest_rank_and_exclude_totals() -> None:
    totals = [("samples", "0"), ("forward_seconds", "0")]
    keys = [("loss", "10"), ("loss", "9"), ("accuracy", ""), ("step", "0"), *totals]
    assert curves_among(keys) == [("step", "0"), ("loss", "9"), ("accuracy", "")]


def test_many_series_have_fewer_points_each() -> None:
    assert (max_points(1), max_points(100), max_points(10**6)) == (600, 240, 20)
