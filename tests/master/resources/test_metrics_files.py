"""``GET /api/metrics`` as a file: zip in the original MLBench's layout, and CSV."""

import io
import json
import time
import zipfile

from falcon.testing import TestClient

from mlbench_master.database.models import Run, pod_owner, run_owner
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.samples import Sample
from mlbench_master.timestamps import to_text
from tests.support.reading import CPU, OLD, OLD_US, get, get_run, opened, point, rows, scrape
from tests.support.recording import Recording
from tests.support.rows import make_pod, make_ranks, make_run, post


def test_the_zip_of_a_run(api: TestClient, writer: RemoteWriter, recording: Recording) -> None:
    now_ms = time.time_ns() // 1_000_000
    run = make_run(name="my-run", created_at=now_ms / 1000 - 60)
    pod = make_pod()
    make_ranks(run, workers=[pod])
    for ago_ms in (61_000, 60_000, 30_000, 10_000, 9_000):
        scrape(writer, pod, now_ms - ago_ms, float(ago_ms))
    post(
        run_owner(run.id),
        [
            Sample("val_global_Prec@1", "0", OLD_US, 97.5, False, ""),
            Sample("a", "", OLD_US, 1.0, True),
            Sample("a", "", OLD_US + 1, 2.0),
            Sample("TaskResult", "0", OLD_US, "bad"),
            Sample("TaskResult", "0", OLD_US + 1, "Target Reached! ü"),
        ],
    )
    Run.update(finished_at=now_ms / 1000 - 10).execute()
    first = point(OLD_US, "1", cumulative=True)
    accuracy = point(OLD_US, "97.5", cumulative=False, metadata="")
    for _ in range(2):
        answer = get_run(api, run, format="zip")
        disposition = answer.headers["Content-Disposition"]
        assert disposition == 'attachment; filename="metrics_my-run.zip"'
        assert opened(answer) == {
            "result_a.json": [first, point(OLD_US + 1, "2", cumulative=False)],
            "result_val_global_Prec@1 @ 0.json": [accuracy],
            "official_result.txt": "Target Reached! ü",
            f"{pod}_{CPU}.json": [
                point((now_ms - ago) * 1000, str(ago), cumulative=False)
                for ago in (60_000, 30_000, 10_000)
            ],
        }
        recording.run_all()
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        text = archive.read("result_a.json").decode()
    assert text == json.dumps(json.loads(text), indent=4)


def test_the_zip_of_a_pod(api: TestClient) -> None:
    pod = make_pod()
    post(pod_owner(pod), [Sample("a", "", OLD_US, 1.0)])
    answer = get(api, pod, format="zip")
    assert pod in answer.headers["Content-Disposition"]
    assert list(opened(answer)) == ["result_a.json"]


def test_names_in_a_zip_are_safe_and_unique(api: TestClient, run: Run) -> None:
    names = ["../../x", "a/b", "a\\b", "a%2Fb", "..", "C:x", "new\nline", "\u202etxt", "A", "a"]
    names += ["x" * 200, "x" * 199 + "y", "ü" * 200, "ü" * 199 + "y"]
    post(run_owner(run.id), [Sample(name, "", OLD_US, float(i)) for i, name in enumerate(names)])
    make_ranks(run, workers=["../pod", "result"])
    post(pod_owner("result"), [Sample("A", "", round(run.created_at * 1e6), 98.0)])
    post(pod_owner("../pod"), [Sample("A", "", round(run.created_at * 1e6), 99.0)])
    for answer in (get_run(api, run, format="zip"), get(api, format="zip", metric_type="run")):
        files = opened(answer)
        values = sorted(float(points[0]["value"]) for points in files.values())
        assert values == [*map(float, range(len(names))), 98.0, 99.0]
        assert len({name.casefold() for name in files}) == len(files)
        for name in files:
            folder, _, file = name.rpartition("/")
            assert folder in ("", str(run.id))
            assert len(file.encode()) < 255
            assert file.isprintable()
            assert not set(file) & set('\\:*?"<>|')
    assert "result_a%2Fb.json" in opened(get_run(api, run, format="zip"))
    post(pod_owner(".."), [Sample("a", "", OLD_US, 1.0)])
    assert set(opened(get(api, format="zip", metric_filter="a"))) == {"%2E%2E/result_a.json"}


def test_csv(api: TestClient, run: Run, recording: Recording) -> None:
    now_us = time.time_ns() // 1_000_000 * 1000
    odd = Sample('b, "c"\r\n', "", OLD_US, "two\nlines, ü", None, "x")
    post(run_owner(run.id), [Sample("a", "0", now_us, 1.5, False, {"k": "v"}), odd])
    for _ in range(2):
        answer = get_run(api, run, format="csv")
        assert rows(answer) == [
            ["series", "date", "value", "cumulative", "metadata", "added"],
            ["a @ 0", to_text(now_us), "1.5", "false", '{"k":"v"}', ""],
            ['b, "c"\r\n', OLD, "two\nlines, ü", "", '"x"', ""],
        ]
        assert answer.text.startswith("series,date,value,cumulative,metadata,added\r\n")
        recording.run_all()
