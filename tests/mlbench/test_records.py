"""Records as a client reads them."""

from mlbench.records import BandwidthLimit, Goal, Info, Run, RunLimits

_RUN = {"id": 1, "name": "a", "state": "STARTED", "reason": "", "num_workers": 2, "attempt": 1}
_RUN |= {"created_at": "", "started_at": None, "finished_at": None, "delivery": None}
_RUN |= {"goal": {"metric": "acc", "value": 97.0, "lower_is_better": False, "new": 1}, "ranks": []}


def test_what_a_later_master_adds_is_passed_over_and_kept() -> None:
    run = Run.from_fields({**_RUN, "num_cpus": 0.5, "image": "my/image", "new": [1]})
    assert run.goal == Goal("acc", 97.0, lower_is_better=False)
    assert (run.num_cpus, run.image, run.benchmark) == (0.5, "my/image", "")
    assert run.fields["new"] == [1]
    assert run.active


def test_an_installation_in_a_cluster_may_limit_bandwidth() -> None:
    limits = {"workers": 8, "cpus": 0.5, "whole_cpus": False, "bandwidth": {"most": 250.0}}
    fields = {"version": "0.1.0", "pool": "kubernetes", "workers": 2, "prometheus": None}
    fields |= {"grafana": {"url": "https://g"}, "limits": {**limits, "gpus": 1}, "new": 1}
    info = Info.from_fields(fields)
    bandwidth = BandwidthLimit(250.0)
    assert info.limits == RunLimits(8, 0.5, whole_cpus=False, bandwidth=bandwidth, gpus=1)
    assert (info.grafana_url, info.prometheus_url) == ("https://g", None)
    assert info.fields["new"] == 1
