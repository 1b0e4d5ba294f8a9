"""``/api/metrics``: samples can be read as soon as they are posted."""

import gzip
import json
import math
import time
from typing import Any

from falcon.testing import TestClient

from mlbench_master.database.models import Pod, Run, Stream
from mlbench_master.timestamps import parse
from tests.support.reading import OLD, get, get_run
from tests.support.rows import make_pod, make_ranks, make_run


def post(api: TestClient, **fields: Any) -> Any:
    body = {"name": "a", "value": 1, "date": OLD} | fields
    # Not json=...: its encoder rejects lone surrogates, which clients can send.
    return api.simulate_post("/api/metrics/", body=json.dumps(body))


def test_posted_samples_can_be_read_at_once(api: TestClient, run: Run) -> None:
    spelled = {1: "1", 0.25: "0.25", 1e300: "1e+300", math.inf: "+Inf", math.nan: "NaN"}
    texts = ("0.188236813", "best so far", "ü 𝄞 \n", "", "x" * 65_536)
    for i, (value, read) in enumerate([*spelled.items(), *((text, text) for text in texts)]):
        answer = post(api, run_id=run.id, name=f"m{i}", value=value)
        assert answer.status_code == 201
        said = {"run_id": run.id, "name": f"m{i}", "date": OLD, "value": str(value)}
        assert answer.json == said
        assert get_run(api, run).json[f"m{i}"] == [{"date": OLD, "value": read}]


def test_a_sample_without_a_date_gets_the_current_time(api: TestClient, run: Run) -> None:
    before = time.time()
    sample = {"run_id": run.id, "name": "a", "value": 1}
    answer = api.simulate_post("/api/metrics/", json=sample)
    assert before - 1e-6 <= parse(answer.json["date"]) / 1e6 <= time.time()
    assert get_run(api, run).json == {"a": [{"date": answer.json["date"], "value": "1"}]}
    assert api.simulate_post("/api/metrics/", json=[sample, sample]).status_code == 201
    assert len(get_run(api, run).json["a"]) == 3, "equal samples must not be merged"


def test_unknown_runs_and_pods_are_not_found(api: TestClient) -> None:
    for run_id in (0, -1, 999, 2**63, 10**30):
        assert get(api, str(run_id), metric_type="run").status_code == 404
        answer = post(api, run_id=run_id)
        assert answer.status_code == 404
        assert answer.json["message"].startswith("run_id: ")
    for pod in ("nobody", "ü", "%00", "x" * 200):
        answer = get(api, pod)
        assert answer.status_code == 404
        assert answer.json["message"].startswith("pod_name: ")
        assert post(api, pod_name=pod).status_code == 404
    assert not Stream.select().exists()


def test_a_deleted_pod_is_known_while_it_has_samples_or_ranks(api: TestClient) -> None:
    pod = make_pod()
    assert get(api, pod).json == {}
    post(api, pod_name=pod)
    post(api, pod_name=pod, name="a @ 0")  # a different series, because series of pods have no rank
    Pod.delete_by_id(pod)
    assert list(get(api, pod).json) == ["a", "a @ 0"]
    assert list(get(api, pod, metric_filter="a @ 0").json) == ["a @ 0"]
    make_ranks(make_run(), workers=[f"{pod}-ran"])
    assert get(api, f"{pod}-ran").json == {}


def test_summaries_are_compressed_if_accepted(api: TestClient, run: Run) -> None:
    dates = (f"2018-08-03T09:21:{second:02}Z" for second in range(60))
    samples = [{"run_id": run.id, "name": "a", "value": 1, "date": date} for date in dates]
    assert api.simulate_post("/api/metrics/", json=samples).status_code == 201
    path, params = f"/api/metrics/{run.id}/", {"metric_type": "run", "summarize": 10}
    accepted = {"Accept-Encoding": "gzip"}
    plain = api.simulate_get(path, params=params)
    packed = api.simulate_get(path, params=params, headers=accepted)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    del params["summarize"]
    whole = api.simulate_get(path, params=params, headers=accepted)
    assert "Content-Encoding" not in whole.headers
