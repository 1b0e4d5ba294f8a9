"""Title, tags and note of a run: editing, limits and search."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from falcon.testing import TestClient

from mlbench_master.database.models import Run
from tests.support.rows import make_run


def edit(api: TestClient, run: Run, **words: object) -> Any:
    return api.simulate_patch(f"/api/runs/{run.id}/", json=words)


@pytest.mark.both_databases
def test_annotations_are_edited_and_searched(api: TestClient) -> None:
    make_run()
    origin = {"installation": "lab", "run_id": 3, "imported_at": 0.0}
    run = make_run(name="made", state="FINISHED", origin=origin)
    original = api.simulate_get(f"/api/runs/{run.id}/").json
    assert (original["title"], original["tags"], original["note"]) == ("made", [], "")
    words = {"title": "Größe 2", "tags": ["paper", "lr:0.1", "paper"], "note": "<b>\n- é 🎉"}
    changed = edit(api, run, **words).json
    html = "<p>&lt;b&gt;</p>\n<ul>\n<li>é 🎉</li>\n</ul>\n"
    assert changed == original | words | {"tags": ["lr:0.1", "paper"], "note_html": html}
    for query in ("Größe", "tag:lr:0.1", "made paper"):
        [match] = api.simulate_get("/api/runs/", params={"query": query}).json
        assert match["id"] == run.id
    changed = edit(api, run, title="", note=None).json
    assert (changed["title"], changed["note"]) == ("made", words["note"])
    assert edit(api, run).json == edit(api, run, tags=changed["tags"]).json == changed


def test_tags_are_added_and_removed_concurrently(api: TestClient) -> None:
    run = make_run(tags=["old", "paper"])
    edits = [{"add_tags": [f"tag-{number}"]} for number in range(20)] + [{"remove_tags": ["old"]}]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda words: edit(api, run, **words), edits))
    assert {answer.status_code for answer in done} == {200}
    assert edit(api, run).json["tags"] == sorted(["paper", *(f"tag-{n}" for n in range(20))])
    both = edit(api, run, tags=["a", "b"], add_tags=["c"], remove_tags=["a", "x"]).json
    assert both["tags"] == ["b", "c"]
    many = edit(api, run, add_tags=[str(number) for number in range(49)])
    message = "add_tags: a run can have at most 50 tags (got 51)"
    assert (many.status_code, many.json["message"]) == (400, message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"title": "a" * 201}, "title: must have at most 200 characters"),
        ({"title": "a\x1b[2J"}, "title: must not have control characters"),
        ({"title": " a"}, "title: must not have control characters, nor spaces at either end"),
        ({"title": 7}, "title: must be a string"),
        ({"tags": "paper"}, "tags: must be a list"),
        ({"tags": ["a b"]}, "tags.0: must match"),
        ({"tags": ["a" * 65]}, "tags.0: must match"),
        ({"tags": ["paper\n"]}, "tags.0: must match"),
        ({"tags": [*map(str, range(51))]}, "tags: must have at most 50 entries (got 51)"),
        ({"note": "a" * 10_001}, "note: must have at most 10000 characters"),
        ({"note": "a\0"}, "note: must not contain NUL"),
        ({"name": "other"}, "name: unknown field"),
    ],
)
def test_invalid_annotations(api: TestClient, words: dict[str, object], message: str) -> None:
    answer = edit(api, make_run(), **words)
    assert answer.status_code == 400
    assert answer.json["message"].startswith(message)
