"""What a run's task runs with, as it states it."""

import json

import pytest

from master.models import Run
from master.recording.delivery import Delivery
from master.recording.run_settings import note_settings
from master.recording.samples import Settings
from tests.master.making import record


def noted(run: Run) -> object:
    return Run.get_by_id(run.id).settings


def test_nothing_is_known_until_it_is_stated(run: Run) -> None:
    note_settings(run, [])
    assert noted(run) is None
    note_settings(run, [Settings({})])
    assert noted(run) == {}


@pytest.mark.both_databases
def test_the_last_statement_stands_in_place_of_those_before(run: Run) -> None:
    note_settings(run, [Settings({"a": 1, "b": 2}), Settings({"a": 3})])
    assert noted(run) == {"a": 3}
    note_settings(run, [])
    assert noted(run) == {"a": 3}


def test_delivery_notes_them_and_counts_no_sample(run: Run, delivery: Delivery) -> None:
    stated = {"learning_rate": 0.1, "compile": False, "folder": None, "device": "cpü", "n": 2**60}
    stream = record(run, json.dumps({"time": 1763683200.5, "settings": stated}).encode() + b"\n")
    while delivery.deliver_waiting():
        pass
    assert noted(run) == stated
    stream = stream.get_by_id(stream.id)
    assert (stream.delivered, stream.recorded) == (stream.size, 0)
