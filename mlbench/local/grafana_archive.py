"""The official archive of Grafana, which ``mlbench grafana install`` unpacks in $MLBENCH_HOME."""

import fcntl
import hashlib
import platform
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mlbench.contract.errors import StackError
from mlbench.local.home import Home

VERSION: Final = "13.2.3"
MONITORING_PAGE: Final = "docs/monitoring.md#install-grafana"
# Digests of the Linux archives at https://grafana.com/grafana/download/13.2.3?edition=oss.
# Public install scripts and build recipes that pin this version have the same digests.
_BUILD: Final = "36482603486"
_SHA256: Final = {
    "amd64": "6107ad27016296aac38e0d7ffa8753ab540b5541ad27e94790f771289d733235",
    "arm64": "a2a41b960ba4c25e83140484e48813730d3c81891a128439a2a9d2df6eb3840e",
}
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_CONNECT_SECONDS: Final = 2.0
_SILENCE_SECONDS: Final = 30.0
# Written last, so that the folder of an interrupted installation lacks it.
_MARK: Final = ".sha256"


@dataclass(frozen=True)
class GrafanaArchive:
    """Address and SHA-256 of an archive."""

    url: str
    sha256: str

    @property
    def host(self) -> str:
        """The server that has it."""
        return urlsplit(self.url).netloc


def official_archive(machine: str = platform.machine()) -> GrafanaArchive:
    """Return the archive for a machine such as ``x86_64``; StackError if there is none."""
    architecture = _ARCHITECTURES.get(machine)
    if architecture is None:
        raise StackError(
            f"Grafana: no archive is pinned for this processor (got {machine}). "
            f"See {MONITORING_PAGE} for other ways to install it."
        )
    name = f"grafana_{VERSION}_{_BUILD}_linux_{architecture}.tar.gz"
    url = f"https://dl.grafana.com/grafana/release/{VERSION}/{name}"
    return GrafanaArchive(url, _SHA256[architecture])


def is_installed(home: Home, archive: GrafanaArchive) -> bool:
    """Return whether this archive is unpacked in the home folder."""
    mark = home.grafana_program / _MARK
    return mark.is_file() and mark.read_text() == archive.sha256


def is_being_installed(home: Home) -> bool:
    """Return whether a process is installing Grafana into the home folder."""
    try:
        with home.grafana_lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def check_reachable(archive: GrafanaArchive) -> None:
    """Raise StackError unless the archive's server answers within two seconds."""
    import httpx  # noqa: PLC0415 - most commands download nothing

    problems: list[str] = ["no answer within 2 s"]

    def ask() -> None:
        try:
            response = httpx.head(archive.url, follow_redirects=True, timeout=_CONNECT_SECONDS)
            problems[:] = [] if response.is_success else [f"HTTP {response.status_code}"]
        except httpx.HTTPError as error:
            problems[:] = [str(error) or type(error).__name__]

    # A thread, because a lookup of the name has no timeout.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_CONNECT_SECONDS)
    if problems:
        raise StackError(_no_download(archive, problems[0]))


def install(
    home: Home, archive: GrafanaArchive, on_progress: Callable[[int, int], None] = lambda *_: None
) -> None:
    """Download an archive, compare its SHA-256, and unpack it in the home folder.

    A failed or interrupted installation leaves an earlier one as it is. ``on_progress`` is called
    with the bytes that have come and those that will come, 0 if the server does not say.
    """
    check_reachable(archive)
    try:
        home.make()
        with _only_one(home) as draft:
            file = draft / "grafana.tar.gz"
            _download(archive, file, on_progress)
            program = draft / "program"
            program.mkdir()
            # A low priority, because a run may be measured on this machine meanwhile.
            command = ["nice", "-n", "19", "tar", "--extract", "--gzip", "--strip-components=1"]
            command += ["--no-same-owner", f"--file={file}", f"--directory={program}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                problem = done.stderr.strip()
                raise StackError(f"Grafana: the archive cannot be unpacked ({problem}).")
            (program / _MARK).write_text(archive.sha256)
            if home.grafana_program.exists():
                home.grafana_program.rename(draft / "earlier")
            program.rename(home.grafana_program)
    except OSError as error:
        raise StackError(
            f"Grafana: {home.grafana_program} cannot be written ({error.strerror}). "
            "It takes about 1 GB."
        ) from error


@contextmanager
def _only_one(home: Home) -> Iterator[Path]:
    """Make a draft folder that is deleted at the end; StackError while another process has it."""
    draft = home.root / ".grafana.part"
    with home.grafana_lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(
                "Grafana: another `mlbench grafana install` is running. Wait until it ends."
            ) from None
        shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
        draft.mkdir()
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _download(archive: GrafanaArchive, file: Path, on_progress: Callable[[int, int], None]) -> None:
    import httpx  # noqa: PLC0415 - most commands download nothing

    digest, received = hashlib.sha256(), 0
    timeout = httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
    try:
        with (
            httpx.stream("GET", archive.url, follow_redirects=True, timeout=timeout) as response,
            file.open("wb") as written,
        ):
            response.raise_for_status()
            total = int(response.headers.get("Content-Length", 0))
            for chunk in response.iter_raw():
                written.write(chunk)
                digest.update(chunk)
                received += len(chunk)
                on_progress(received, total)
    except httpx.HTTPError as error:
        raise StackError(_no_download(archive, str(error) or type(error).__name__)) from error
    if digest.hexdigest() != archive.sha256:
        raise StackError(
            f"Grafana: {archive.url} is not the expected archive (got SHA-256 "
            f"{digest.hexdigest()}, expected {archive.sha256}). Nothing was installed."
        )


def _no_download(archive: GrafanaArchive, problem: str) -> str:
    return (
        f"Grafana: {archive.host} cannot be reached ({problem}). Try again, or see "
        f"{MONITORING_PAGE} for other ways to install it."
    )
