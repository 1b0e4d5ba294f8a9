"""Proxies of Debian's packages, with the configurations of the documentation."""

import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from benchmarks.servers import running
from tests.conftest import wait_for

_EXAMPLES = Path(__file__).parents[2] / "examples" / "proxies"


def program(name: str) -> str:
    """Return the path of a server that scripts/get-debian.sh has fetched, or skip the test."""
    variable = name.rpartition("-")[2].upper()
    path = os.environ.get(variable) or shutil.which(name)
    if path is None:
        pytest.skip(f"${variable} is not set to what `scripts/get-debian.sh {name}` prints")
    return path


def alertmanager() -> tuple[str, ...]:
    """Return the command that starts Debian's Alertmanager, or skip the test."""
    path = Path(program("prometheus-alertmanager"))
    place = Path("/usr/share/prometheus/alertmanager")
    if place.exists():
        return (str(path),)
    # It looks for its templates where the package installs them. Only this process sees them there.
    templates = path.resolve().parents[1] / "share" / "prometheus" / "alertmanager"
    script = (
        f"mount -t tmpfs none /usr/share && mkdir {place.parent} && ln -s {templates} {place} && "
        'exec "$0" "$@"'
    )
    return ("unshare", "--map-root-user", "--mount", "sh", "-c", script, str(path))


@dataclass(frozen=True)
class Certificate:
    """A certificate of localhost that signs itself."""

    file: Path
    key: Path

    @property
    def context(self) -> ssl.SSLContext:
        """What trusts it."""
        return ssl.create_default_context(cafile=self.file)

    @classmethod
    def make(cls, folder: Path) -> "Certificate":
        made = cls(folder / "localhost.pem", folder / "localhost.key")
        subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
        files = ("-keyout", made.key, "-out", made.file)
        request = ("openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2")
        subprocess.run([*request, *subject, *files], check=True, capture_output=True)
        return made


@contextmanager
def nginx(folder: Path, port: int, master_port: int, certificate: Certificate) -> Iterator[None]:
    """Run nginx with the documented configuration, but for ports and certificate."""
    server = (_EXAMPLES / "nginx.conf").read_text()
    for old, new in (
        ("443 ssl", f"127.0.0.1:{port} ssl"),
        ("127.0.0.1:8000", f"127.0.0.1:{master_port}"),
        ("ml.example.org;", "localhost;"),
        ("/etc/ssl/private/ml.example.org.pem", str(certificate.file)),
        ("/etc/ssl/private/ml.example.org.key", str(certificate.key)),
    ):
        assert old in server
        server = server.replace(old, new)
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"user root;\ndaemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{\naccess_log {folder}/access.log;\n{places}{server}}}\n"
    )
    command = (program("nginx"), "-c", str(config), "-p", str(folder))
    with running("nginx", command, folder, {}):
        _wait(f"https://localhost:{port}/mlbench/healthz", certificate)
        yield


@contextmanager
def caddy(folder: Path, port: int, master_port: int, certificate: Certificate) -> Iterator[None]:
    """Run Caddy with the documented configuration, but for ports and certificate."""
    config = (_EXAMPLES / "Caddyfile").read_text()
    for old, new in (
        ("127.0.0.1:8000", f"127.0.0.1:{master_port}"),
        (
            "ml.example.org {",
            "{\n\tadmin off\n\tauto_https disable_redirects\n}\n"
            f"https://localhost:{port} {{\n\ttls {certificate.file} {certificate.key}",
        ),
    ):
        assert old in config
        config = config.replace(old, new)
    (folder / "Caddyfile").write_text(config)
    places = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    command = (program("caddy"), "run", "--config", str(folder / "Caddyfile"))
    with running("caddy", command, folder, places):
        _wait(f"https://localhost:{port}/mlbench/healthz", certificate)
        yield


def _wait(url: str, certificate: Certificate) -> None:
    def responds() -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(url, verify=certificate.context).is_success
        return False

    wait_for(responds, 60.0, f"{url} responds")
