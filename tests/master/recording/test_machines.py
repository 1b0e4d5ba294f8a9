"""What a rank runs on, as its agent states it in its stream."""

import json
from typing import Any

import pytest

from master.machine import read_machine
from master.models import Rank, Run, run_owner
from master.recording.delivery import Delivery
from master.recording.machines import note_machine
from master.recording.samples import Sample
from tests.master.making import find_stream, key, line, make_ranks, post, record


def stated(**facts: Any) -> bytes:
    return json.dumps({"time": 1763683200.5, "machine": facts}).encode() + b"\n"


def hostnames(run: Run) -> list[str | None]:
    """Return the machines of the latest attempt's ranks, by name."""
    ranks = Rank.select().where(Rank.run == run, Rank.attempt == run.attempt).order_by(Rank.rank)
    return [rank.machine and rank.machine["hostname"] for rank in ranks]


def deliver(delivery: Delivery) -> None:
    while delivery.deliver_waiting():
        pass


@pytest.mark.both_databases
def test_each_rank_has_its_own_and_no_sample_is_counted(run: Run, delivery: Delivery) -> None:
    make_ranks(run)
    git = {"commit": "c", "dirty": True, "root": "/ü"}
    data = stated(hostname="a", packages={"torch": "2.13.0"}, git=git)
    stream = record(run, data)
    deliver(delivery)
    assert hostnames(run) == ["a", None]
    record(run, stated(hostname="b"), rank=1)
    deliver(delivery)
    assert hostnames(run) == ["a", "b"]
    machine = Rank.get(run=run, rank=0).machine
    assert machine == read_machine(json.loads(data)["machine"]).to_fields()
    assert machine["git"] == git
    stream = stream.get_by_id(stream.id)
    assert (stream.delivered, stream.recorded) == (stream.size, 0)


@pytest.mark.both_databases
def test_the_first_statement_stays(run: Run, delivery: Delivery) -> None:
    make_ranks(run)
    record(run, stated(hostname="agent") + stated(hostname="training"))
    deliver(delivery)
    assert hostnames(run) == ["agent", None]
    record(run, stated(hostname="training"))
    deliver(delivery)
    assert hostnames(run) == ["agent", None]


def test_another_attempt_states_its_own(run: Run, delivery: Delivery) -> None:
    make_ranks(run)
    record(run, stated(hostname="first"))
    run.attempt = 2
    run.save()
    make_ranks(run)
    record(run, stated(hostname="second"))
    deliver(delivery)
    assert hostnames(run) == ["second", None]
    assert Rank.get(run=run, attempt=1, rank=0).machine["hostname"] == "first"


def test_nothing_stated_changes_nothing(run: Run) -> None:
    make_ranks(run)
    record(run, line(1763683200.5, a=1))
    stream = find_stream(key(run))
    assert stream is not None
    note_machine(run, stream, [])
    assert hostnames(run) == [None, None]


def test_a_posted_sample_states_none(run: Run, delivery: Delivery) -> None:
    make_ranks(run)
    post(run_owner(run.id), [Sample("machine", "", 1763683200_500000, '{"hostname": "a"}')])
    deliver(delivery)
    assert hostnames(run) == [None, None]


def test_a_bad_one_is_a_malformed_line(run: Run, delivery: Delivery) -> None:
    make_ranks(run)
    stream = record(run, stated(hostname=1))
    deliver(delivery)
    assert hostnames(run) == [None, None]
    assert stream.get_by_id(stream.id).recorded == 1
