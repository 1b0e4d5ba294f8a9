"""Output of ``mlbench manifest``."""

from dataclasses import replace

from mlbench.cli.manifest import facts
from mlbench.contract.records import GitState, Machine, NotRecorded, RankOnMachine
from tests.support.results import make_manifest, make_result, make_run

_MACHINE = Machine(
    ranks=(0, 1),
    cpu_model="AMD EPYC",
    cpus=2,
    cpu_limit=1.5,
    bandwidth_limit=20.0,
    memory_bytes=8 * 2**30,
    gpus=("NVIDIA H100",),
    os="Linux 6.1",
    architecture="x86_64",
    python="3.11.2",
    packages={"zlib": "1", "numpy": "2.4", "torch": "2.13.0"},
    git=GitState("0123456789abcdef", dirty=True, root="/code"),
    code="train.py 3f2a91c8b0d1",
)
_RANKS = (
    RankOnMachine(0, "w-0", None, "me/train@sha256:0123", (0, 1), -0.002, 0.0005),
    RankOnMachine(1, "w-1", None, None, (), None, None),
)
_USUAL = make_manifest(make_run(benchmark="digits", args={"goal": "90"}, seed=0), make_result(1))
_MANIFEST = replace(
    _USUAL,
    rule_violations=("its target is 90",),
    working_dir="/home/me",
    settings={"device": "cpu", "exchange": "ddp", "bits": 4, "rate": 0.1, "folder": None},
    limits=replace(_USUAL.limits, num_workers=2, gpu_enabled=True),
    machines=(_MACHINE,),
    ranks=_RANKS,
)


def test_the_facts_describe_the_run_and_its_machines() -> None:
    assert dict(facts(_MANIFEST)) == {
        "division": "closed",
        "violation": "its target is 90",
        "task": "digits",
        "arguments": "goal=90",
        "settings": "device=cpu exchange=ddp rate=0.1",
        "folder": "/home/me",
        "seed": "0",
        "limits": "num_workers=2 gpu_enabled=true light_target=false max_restarts=0",
        "image ids": "me/train@sha256:0123",
        "cores": "rank 0 on 0, 1",
        "clocks": "within 2.5 ms of the master's",
        "ranks 0, 1": (
            "AMD EPYC; 2 cores (limit 1.5); 8.0 GiB of memory; NVIDIA H100; "
            "20 Mbit/s at most, but for 3 kB at once; Linux 6.1 x86_64; Python 3.11.2; "
            "torch 2.13.0; numpy 2.4; git 0123456789ab with uncommitted changes; "
            "code train.py 3f2a91c8b0d1"
        ),
        "MLBench": "0.1.0",
    }


def test_unrecorded_data_is_named_and_unknown_facts_are_left_out() -> None:
    missing = NotRecorded("1 event file not read to its end", unread_files=1)
    assert ("not recorded", missing.text) in facts(replace(_MANIFEST, not_recorded=missing))
    machine = Machine(ranks=(3,), cpu_model="a CPU")
    found = facts(replace(_MANIFEST, machines=(machine,), ranks=(), settings=None, seed=None))
    assert ("rank 3", "a CPU") in found
    assert not {"settings", "seed", "clocks", "image ids"} & dict(found).keys()
