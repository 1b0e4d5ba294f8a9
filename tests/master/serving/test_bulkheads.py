"""The bulkhead of a request depends on method and path."""

import pytest

from mlbench_master.serving.bulkheads import Bulkhead, bulkhead_of


@pytest.mark.parametrize(
    ("method", "path", "bulkhead"),
    [
        ("POST", "/api/workers/w-0/poll", Bulkhead.POLLS),
        ("POST", "/api/workers/w-0/poll/", Bulkhead.POLLS),
        ("POST", "/api/join/", Bulkhead.POLLS),
        ("POST", "/heartbeat", Bulkhead.POLLS),
        ("GET", "/api/workers/w-0/poll", Bulkhead.OTHERS),
        ("POST", "/api/workers/w-0/poll/more", Bulkhead.OTHERS),
        ("POST", "/api/workers/a/b/poll", Bulkhead.OTHERS),
        ("PUT", "/api/runs/7/ranks/0/stdout", Bulkhead.STREAMS),
        ("GET", "/api/runs/7/ranks/0/stdout", Bulkhead.OTHERS),
        ("GET", "/healthz", Bulkhead.PROBES),
        ("HEAD", "/readyz", Bulkhead.PROBES),
        ("GET", "/metrics", Bulkhead.PROBES),
        ("GET", "/api/metrics/", Bulkhead.OTHERS),
        ("GET", "/", Bulkhead.OTHERS),
        ("OPTIONS", "*", Bulkhead.OTHERS),
    ],
)
def test_method_and_path_determine_the_bulkhead(method: str, path: str, bulkhead: Bulkhead) -> None:
    assert bulkhead_of(method, path) is bulkhead
