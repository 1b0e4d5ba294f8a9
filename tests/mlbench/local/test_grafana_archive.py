"""Grafana's archive is installed completely or not at all."""

import hashlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mlbench.contract.errors import StackError
from mlbench.local import grafana_archive
from mlbench.local.grafana_archive import GrafanaArchive, install, is_installed
from mlbench.local.grafana_server import InstalledGrafana, find_grafana
from mlbench.local.home import Home
from tests.support.archive_server import ArchiveServer, packed, serving


@pytest.fixture
def server() -> Iterator[ArchiveServer]:
    with serving() as served:
        yield served


def _left(home: Home) -> list[str]:
    """Return the names of all files in the home folder except the lock."""
    return sorted(path.name for path in home.root.iterdir() if path != home.grafana_lock)


@contextmanager
def _fails_within(seconds: float, match: str) -> Iterator[None]:
    began = time.monotonic()
    with pytest.raises(StackError, match=match):
        yield
    assert time.monotonic() - began < seconds


def test_the_expected_archive_is_unpacked_and_found(server: ArchiveServer, home: Home) -> None:
    progress: list[tuple[int, int]] = []
    assert find_grafana({"PATH": ""}, home) is None
    install(home, server.archive, lambda *counts: progress.append(counts))
    assert progress[-1] == (len(server.content), len(server.content))
    program = home.grafana_program / "bin" / "grafana"
    found = InstalledGrafana(program, home.grafana_program)
    assert find_grafana({"PATH": ""}, home) == found
    assert is_installed(home, server.archive)
    assert _left(home) == [home.grafana_program.name]
    assert not is_installed(home, GrafanaArchive(server.url, "0" * 64)), "another version"


def test_another_archive_is_refused(server: ArchiveServer, home: Home) -> None:
    server.content = packed("13.2.4")
    got = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(StackError, match=f"got SHA-256 {got}, expected {server.archive.sha256}"):
        install(home, server.archive)
    assert _left(home) == []


def test_an_interrupted_download_can_be_repeated(server: ArchiveServer, home: Home) -> None:
    server.breaks_off = True
    with pytest.raises(StackError, match=r"Try again, or see docs/monitoring\.md#install-grafana"):
        install(home, server.archive)
    assert _left(home) == []
    # A killed process leaves temporary files.
    (home.root / ".grafana.part" / "program").mkdir(parents=True)
    server.breaks_off = False
    install(home, server.archive)
    assert _left(home) == [home.grafana_program.name]


def test_a_failed_update_keeps_the_installed_version(server: ArchiveServer, home: Home) -> None:
    install(home, server.archive)
    server.content = packed("13.2.4")
    newer = GrafanaArchive(server.url, hashlib.sha256(server.content).hexdigest())
    server.breaks_off = True
    with pytest.raises(StackError):
        install(home, newer)
    assert is_installed(home, server.archive)
    server.breaks_off = False
    install(home, newer)
    assert is_installed(home, newer)
    assert _left(home) == [home.grafana_program.name]


def test_a_missing_network_is_reported_quickly(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grafana_archive, "_CONNECT_SECONDS", 0.2)  # shorten the test
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with _fails_within(1, "refused"):  # no server listens
            install(home, GrafanaArchive(url, ""))
        silent.listen()  # the server never responds
        with _fails_within(1, "cannot be reached"):
            install(home, GrafanaArchive(url, ""))

    def look_up(*_: object, **__: object) -> None:
        time.sleep(5)
        raise socket.gaierror("no name server answers")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with _fails_within(1, r"dl\.grafana\.com cannot be reached \(no answer within 2 s\)"):
        install(home, grafana_archive.official_archive("x86_64"))
    assert not home.root.exists()


def test_a_concurrent_installation_is_refused(server: ArchiveServer, home: Home) -> None:
    def again(*_: int) -> None:
        assert grafana_archive.is_being_installed(home)
        with pytest.raises(StackError, match="another `mlbench grafana install` is running"):
            install(home, server.archive)

    install(home, server.archive, again)
    assert is_installed(home, server.archive)
    assert not grafana_archive.is_being_installed(home)


def test_each_architecture_has_an_archive_or_is_refused() -> None:
    intel, arm = map(grafana_archive.official_archive, ("x86_64", "aarch64"))
    assert intel.url.endswith("_linux_amd64.tar.gz")
    assert arm.url.endswith("_linux_arm64.tar.gz")
    assert intel.sha256 != arm.sha256
    with pytest.raises(StackError, match=r"got riscv64"):
        grafana_archive.official_archive("riscv64")
