"""API records, as decoded by a client."""

from mlbench.contract.records import BandwidthLimit, Info, Run, RunLimits, Target
from tests.support.results import make_run


def test_unknown_fields_are_ignored_and_kept() -> None:
    target = {"metric": "acc", "value": 97.0, "new": 1}
    run = Run.from_fields({**make_run().to_fields(), "target": target, "new": [1]})
    assert run == make_run(target=Target("acc", 97.0))
    assert run.fields["new"] == [1]


def test_a_run_of_an_earlier_version_has_the_name_given_by_its_user() -> None:
    fields = {**make_run().to_fields(), "name": "my-run-d59c4f", "display_name": "My run"}
    del fields["resource_name"], fields["title"]
    run = Run.from_fields(fields)
    assert (run.name, run.display_name, run.title) == ("My run", "My run", "My run")
    assert run.resource_name == "my-run-d59c4f"


def test_an_installation_in_a_cluster_may_limit_bandwidth() -> None:
    limits = {"workers": 8, "cpus": 0.5, "whole_cpus": False, "gpus": 1}
    fields = {
        **{"version": "0.1.0", "pool": "kubernetes", "workers": 2, "database": "sqlite"},
        **{"prometheus": None, "grafana": {"url": "https://g"}, "new": 1},
        "limits": {**limits, "bandwidth": {"most": 250.0}},
    }
    info = Info.from_fields(fields)
    bandwidth = BandwidthLimit(250.0)
    assert info.limits == RunLimits(8, 0.5, whole_cpus=False, bandwidth=bandwidth, gpus=1)
    assert (info.grafana_url, info.prometheus_url) == ("https://g", None)
    assert info.fields["new"] == 1
