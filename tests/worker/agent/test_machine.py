"""The facts of the machine that the test runs on, and of files as other machines have them."""

import os
import platform
from pathlib import Path

import psutil

from worker.agent.machine import read_machine


def test_this_machine() -> None:
    machine = read_machine()
    assert machine.hostname == platform.node()
    assert machine.architecture == platform.machine()
    assert platform.release() in machine.os
    assert machine.cpus == len(os.sched_getaffinity(0))
    assert machine.memory_bytes == psutil.virtual_memory().total


def test_without_any_files_of_the_system(tmp_path: Path) -> None:
    machine = read_machine(tmp_path)
    assert (machine.cpu_model, machine.cpu_limit, machine.memory_limit_bytes) == (None, None, None)


def test_the_model_of_the_first_core(tmp_path: Path) -> None:
    for text, model in {
        "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC \ncpu MHz\t\t: 2596.1\n": "AMD EPYC",
        "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800MHz\n": (
            "POWER9, altivec supported"
        ),
        "processor\t: 0\nBogoMIPS\t: 243.75\nCPU part\t: 0xd0c\n": None,
        "model name\t:\n": None,
        "model name\t: \udcff\n": "\N{REPLACEMENT CHARACTER}",
    }.items():
        (tmp_path / "proc").mkdir(exist_ok=True)
        (tmp_path / "proc/cpuinfo").write_text(text, errors="surrogateescape")
        assert read_machine(tmp_path).cpu_model == model


def test_a_limit_that_is_not_below_the_memory_is_none(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    total = psutil.virtual_memory().total
    for limit, told in {total: None, total - 1: total - 1}.items():
        (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{limit}\n")
        assert read_machine(tmp_path).memory_limit_bytes == told
