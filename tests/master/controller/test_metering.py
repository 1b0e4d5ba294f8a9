"""What is counted of the controller's loop."""

import time

import pytest
from prometheus_client import CollectorRegistry

from master.controller.metering import LoopMetrics

_TIMES = "mlbench_controller_reconciles_total"
_DONE_AT = "mlbench_controller_reconcile_timestamp_seconds"


def test_what_went_well_and_what_failed() -> None:
    registry = CollectorRegistry()
    loop = LoopMetrics(registry)
    with pytest.raises(ZeroDivisionError), loop.counted():
        _ = 1 / 0
    assert registry.get_sample_value(_TIMES, {"outcome": "failed"}) == 1
    assert registry.get_sample_value(_TIMES, {"outcome": "done"}) == 0
    assert registry.get_sample_value(_DONE_AT) == 0
    with loop.counted():
        pass
    assert registry.get_sample_value(_TIMES, {"outcome": "done"}) == 1
    assert registry.get_sample_value(_DONE_AT) == pytest.approx(time.time(), abs=10)
