"""``mlbench export``, ``import`` and ``publish``."""

from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.records import Planned, RunSet, Slot, Trial
from mlbench.local.home import Home
from tests.mlbench.cli.conftest import Mlbench
from tests.support.results import make_archive, make_result, make_run
from tests.support.scripted import Asked, Reply, answering
from tests.support.stacks import order_steps, run_to_end


def test_an_exported_run_is_read_only_after_its_import(here: Mlbench, client: ApiClient) -> None:
    run = run_to_end(client, order_steps(client, "traveller", steps=20, rate=1000))
    series = _series(client, run.id)
    words = ("--title", "On the road", "--tag", "paper", "--tag", "old", "--note", "*Far*")
    assert here("edit", "traveller", *words).out == f"run {run.id} (On the road): old, paper\n"
    assert here("edit", "On the road", "--untag", "old", "--json").json["tags"] == ["paper"]
    assert "nothing to change" in here("edit", "traveller").err
    files = "traveller.mlbench: 1 run\ntraveller.mlbench.annotations.json: titles, tags and notes\n"
    assert here("export", "traveller").output == files
    assert here("verify", "traveller.mlbench").code == 0
    [entry] = here("import", "traveller.mlbench", "--json").json
    assert (entry["added"], entry["run"]["id"]) == (False, run.id)

    client.delete_run(run.id).result()
    printed = here("import", "traveller.mlbench").output
    again = client.get_runs().result().value[-1]
    assert printed == f"run {again.id} (On the road, {again.origin}) imported\n"
    assert (again.tags, again.note) == (("paper",), "*Far*")
    assert again.origin is not None
    assert again.origin.run_id == run.id
    assert _series(client, again.id) == series
    assert f"imported: {again.origin}, read only" in here("status", str(again.id)).out
    listed = here("status").out
    assert (str(again.origin) in listed, "paper" in listed) == (True, True)
    assert "is imported, therefore read-only" in here("stop", str(again.id)).refusal
    published = here("publish", "traveller.mlbench", "-o", "site").output
    assert published == "site/index.html: 1 run\n"
    assert here("delete", "--yes", str(again.id)).code == 0


def _series(client: ApiClient, run_id: int) -> dict[str, list[tuple[str, str]]]:
    """Return time and value of each series' samples, in milliseconds like in Prometheus."""
    series = client.get_run_metrics(run_id).result().json()
    return {
        name: [
            (point["date"][: len("2026-11-30T02:43:42.162")], point["value"]) for point in points
        ]
        for name, points in series.items()
    }


@pytest.mark.slow
def test_a_set_is_exported_with_its_counted_runs(here: Mlbench, client: ApiClient) -> None:
    args = {"steps": "20", "rate": "1000"}
    client.create_set("pair", [Planned(1), Planned(2)], benchmark="steps", args=args).result()
    assert here("watch", "pair").code == 0
    assert here("export", "pair", "-o", "all.mlbench").out == "all.mlbench: 2 runs\n"
    run_ids = client.get_set("pair").result().value.counted
    for run_id in run_ids:
        client.delete_run(run_id).result()
    imported = here("import", "all.mlbench", "--json").json
    assert [entry["run"]["origin"]["run_id"] for entry in imported] == run_ids
    assert [entry["run"]["origin"]["slot"] for entry in imported] == [1, 2]
    assert here("verify", "all.mlbench").code == 0
    assert here("publish", "all.mlbench", "-o", "site").out == "site/index.html: 2 runs\n"


def test_files_other_than_valid_archives_are_refused(here: Mlbench, tmp_path: Path) -> None:
    (tmp_path / "text.mlbench").write_text("not an archive")
    (tmp_path / "file").touch()
    for command, message in (
        (("import", "text.mlbench"), "text.mlbench is no archive, or a damaged one"),
        (("publish", "none.mlbench", "-o", "x"), "none.mlbench cannot be read: No such file"),
        (("export", "nobody"), "run or set 'nobody' not found"),
    ):
        assert message in here(*command).refusal
    make_archive(tmp_path, make_result(1))
    flipped = bytearray((tmp_path / "1.mlbench").read_bytes())
    flipped[flipped.rindex(b"PAR1")] ^= 1
    (tmp_path / "flipped.mlbench").write_bytes(flipped)
    for words in (["import"], ["publish", "-o", "site"]):
        damaged = here(*words, "flipped.mlbench").err
        assert damaged.startswith("mlbench: flipped.mlbench is damaged: samples.parquet does not")
        assert damaged.count("\n") == 1
    assert "-o file: " in here("publish", "1.mlbench", "-o", "file").err


def test_names_from_the_master_cannot_leave_the_folder(tmp_path: Path) -> None:
    trial = Trial(1, 9, 1, "FINISHED", "", disturbed=False, deleted=False, counts=True, remark="")
    slot = Slot(1, "a-w1-r1", 1, 1, is_open=False, trials=(trial,))
    run_set = RunSet("../outside", "2018-08-03T09:21:29Z", False, None, {}, (slot,), "")
    run = make_run(id=9, archive="a-9.mlbench").to_fields()
    replies: dict[str, object] = {
        "/api/runs/": [run],
        "/api/runs/9/": run,
        "/api/sets/..%2Foutside/": run_set.to_fields(),
        "/api/runs/9/archive/": make_archive(tmp_path, make_result(9)).read_bytes(),
    }
    folder = tmp_path / "folder"
    folder.mkdir()

    def reply(asked: Asked) -> Reply:
        body = replies.get(asked.path.partition("?")[0])
        return Reply(404, {"status": 404, "message": ""}) if body is None else Reply(body=body)

    with answering(reply) as master:
        variables = {names.ENV_URL: master.url, names.ENV_TOKEN: "token"}
        here = Mlbench(Home(tmp_path / "none"), tmp_path, folder=folder, more=variables)
        assert here("export", "../outside").out == "---outside.mlbench: 1 run\n"
        run["name"] = "../outside"
        run["resource_name"] = "../outside"
        for command in ("export", "download"):
            assert "resource_name: must be the name of a file" in here(command, "9").err
    assert [path.name for path in folder.iterdir()] == ["---outside.mlbench"]
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "9.mlbench"}
