"""What the stack runs: its ports, secrets, environment, and what must be installed."""

import os
import re
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlbench import names, pod_token
from mlbench.home import Home
from mlbench.login import split_login
from mlbench.pod_token import PodIdentity, identify
from mlbench.stack import ports, services
from mlbench.stack.errors import StackError
from mlbench.stack.ports import Ports, is_free
from mlbench.stack.services import (
    Service,
    Services,
    check_installed,
    find_prometheus,
)
from tests.conftest import free_port

_SECRETS = (names.ENV_TOKEN, names.ENV_AGENT_SECRET)
_USERS_GRAFANA = (
    names.ENV_GRAFANA_URL,
    names.ENV_GRAFANA_TOKEN,
    names.ENV_GRAFANA_PROMETHEUS_URL,
)
_SHOWN_GRAFANA = names.ENV_GRAFANA_PUBLIC_URL


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that a server listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that passes for Prometheus, named by $PROMETHEUS."""
    path = tmp_path / "given" / "prometheus"
    path.parent.mkdir()
    path.touch(mode=0o755)
    monkeypatch.setenv("PROMETHEUS", str(path))
    return path


@pytest.fixture(autouse=True)
def no_grafana(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine has: there is no Grafana, and the user has none elsewhere."""
    monkeypatch.setenv("GRAFANA", str(tmp_path / "nowhere"))
    for name in (*_USERS_GRAFANA, _SHOWN_GRAFANA):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def grafana(tmp_path: Path, no_grafana: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that passes for Grafana, named by $GRAFANA."""
    path = tmp_path / "given" / "grafana"
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o755)
    monkeypatch.setenv("GRAFANA", str(path))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def all_services(home: Home) -> list[Service]:
    found = Services(home, workers=2)
    return [*found.fixed, found.worker(0)]


def options(service: Service) -> dict[str, str]:
    """Return the ``--key value`` and ``--key=value`` options of a service's command."""
    joined = " ".join(service.command)
    return dict(re.findall(r"--([\w.-]+)[= ](\S+)", joined))


# --- Ports. ---


def test_a_taken_port_is_not_free(taken: int) -> None:
    assert not is_free(taken)
    assert is_free(free_port())


def test_near_skips_what_is_taken_and_what_was_given(taken: int) -> None:
    ports = Ports()
    first = ports.near(taken)
    second = ports.near(taken)
    assert taken < first < second < taken + 200


def test_two_stacks_that_start_at_once_get_different_ports() -> None:
    # Nothing listens yet on what the first was given.
    usual = free_port()
    assert Ports().near(usual) != Ports().near(usual)


def test_near_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda port: False)
    with pytest.raises(StackError, match="no port from 8000 to 8199 is free"):
        Ports().near(8000)


def test_exactly_is_that_port_or_an_error(taken: int) -> None:
    port = free_port()
    assert Ports().exactly(port) == port
    with pytest.raises(StackError, match=f"port {taken} is taken by another program"):
        Ports().exactly(taken)


def test_a_given_port_is_the_masters(home: Home, binary: Path) -> None:
    port = free_port()
    assert Services(home, workers=2, port=port).url == f"http://127.0.0.1:{port}"


def test_every_service_has_a_port_of_its_own_and_keeps_it(home: Home, binary: Path) -> None:
    found = Services(home, workers=2)
    ports = [s.port for s in (*found.fixed, found.worker(0), found.worker(1)) if s.port]
    assert len(set(ports)) == len(ports) == 6, "each serves HTTP"
    assert found.worker(1).port == ports[-1]


def test_all_listen_on_loopback_only(home: Home, binary: Path) -> None:
    prometheus, master, *_ = all_services(home)
    assert options(prometheus)["web.listen-address"] == prometheus.address
    assert options(master)["bind"] == master.address
    assert master.address.startswith("127.0.0.1:")


# --- Secrets and environment. ---


def test_secrets_are_private_and_stay_the_same(home: Home, binary: Path) -> None:
    first, second = Services(home, workers=2), Services(home, workers=2)
    files = [home.root / "token", home.root / "agent-secret"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600]
    assert first.token == second.token == files[0].read_text().strip()
    assert len(first.token) >= 40
    assert files[0].read_text() != files[1].read_text()


def test_each_process_gets_the_secrets_that_it_needs(home: Home, binary: Path) -> None:
    found = {s.name: {key for key in _SECRETS if key in s.environ} for s in all_services(home)}
    assert found == {
        "prometheus": set(),
        "master": {names.ENV_TOKEN, names.ENV_AGENT_SECRET},
        "controller": set(),
        "exporter": set(),
        "local-mlbench-worker-0": set(),
    }


def test_each_worker_has_the_token_of_its_own_pod(home: Home, binary: Path) -> None:
    found = Services(home, workers=2)
    secret = (home.root / "agent-secret").read_text().strip()
    for number in (0, 1):
        worker = found.worker(number)
        words = worker.command
        file = Path(words[words.index("--token-file") + 1])
        assert stat.S_IMODE(file.stat().st_mode) == 0o400
        assert identify(pod_token.read(file), secret) == PodIdentity(worker.name, "")


def test_no_secret_is_on_a_command_line(home: Home, binary: Path) -> None:
    commands = [" ".join(service.command) for service in all_services(home)]
    secrets = ("token", "agent-secret", "prometheus-password")
    for name in (*secrets, "pod-tokens/local-mlbench-worker-0"):
        secret = (home.root / name).read_text().strip()
        assert not [command for command in commands if secret in command]


def test_what_another_stack_left_in_the_shell_does_not_reach_this_one(
    home: Home, binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {value for key, value in vars(names).items() if key.startswith("ENV_")}
    of_the_user = {*_USERS_GRAFANA, _SHOWN_GRAFANA}
    for name in ours - {*of_the_user, names.ENV_DATASETS, names.ENV_GIT_COMMIT}:
        monkeypatch.setenv(name, "foreign")
    monkeypatch.setenv("OTHER", "kept")
    for service in all_services(home):
        assert "foreign" not in service.environ.values(), service.name
        assert service.environ["OTHER"] == "kept"
        assert service.environ[names.ENV_HOME] == str(home.root)


def test_the_workers_look_for_data_sets_where_the_user_does(
    home: Home, binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_DATASETS, "/of/the/user")
    assert Services(home, workers=2).worker(0).environ[names.ENV_DATASETS] == "/of/the/user"


def test_the_master_knows_how_many_workers_are_usual(home: Home, binary: Path) -> None:
    _, master, controller, *_ = Services(home, workers=5).fixed
    assert master.environ[names.ENV_WORKERS] == controller.environ[names.ENV_WORKERS] == "5"


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, "127.0.0.1"), ("corp.example", "corp.example,127.0.0.1")],
)
def test_a_proxy_is_not_asked_for_the_stacks_own_traffic(
    home: Home,
    binary: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str | None,
    expected: str,
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    if given:
        monkeypatch.setenv("NO_PROXY", given)
    for service in all_services(home):
        assert service.environ["no_proxy"] == service.environ["NO_PROXY"] == expected


# --- Grafana. ---


def test_a_grafana_is_the_last_to_start_and_no_one_waits_for_it(
    home: Home, binary: Path, grafana: Path
) -> None:
    found = Services(home, workers=2)
    last = found.fixed[-1]
    assert (last.name, last.optional) == ("grafana", True)
    assert last.command[0] == str(grafana)
    assert found.grafana_url == f"http://127.0.0.1:{last.port}"
    assert not any(service.optional for service in found.fixed[:-1])


def test_the_stacks_grafana_reads_the_stacks_prometheus(
    home: Home, binary: Path, grafana: Path
) -> None:
    found = Services(home, workers=2)
    shown = found.fixed[-1]
    password = (home.root / "grafana-password").read_text().strip()
    assert stat.S_IMODE((home.root / "grafana-password").stat().st_mode) == 0o600
    assert shown.environ["GF_SECURITY_ADMIN_PASSWORD"] == password
    url, login = split_login(found.prometheus_url)
    assert shown.environ[names.ENV_PROMETHEUS_URL] == url, "whoever looks may read it"
    assert shown.environ[names.ENV_PROMETHEUS_BASIC_AUTH] == "true"
    told = (names.ENV_PROMETHEUS_USER, names.ENV_PROMETHEUS_PASSWORD)
    assert tuple(shown.environ[name] for name in told) == login


def test_only_the_controller_is_told_the_users_own_grafana(
    home: Home, binary: Path, grafana: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in _USERS_GRAFANA:
        monkeypatch.setenv(name, "of the user")
    for service in all_services(home):
        known = [name for name in _USERS_GRAFANA if service.environ.get(name) == "of the user"]
        assert known == (list(_USERS_GRAFANA) if service.name == "controller" else [])


def test_the_web_pages_lead_to_the_stacks_grafana(home: Home, binary: Path, grafana: Path) -> None:
    found = Services(home, workers=2)
    assert found.fixed[1].environ[_SHOWN_GRAFANA] == found.grafana_url


@pytest.mark.parametrize("name", [names.ENV_GRAFANA_URL, _SHOWN_GRAFANA])
def test_the_web_pages_lead_to_the_users_own_grafana(
    home: Home, binary: Path, grafana: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(names.ENV_GRAFANA_URL, "http://in.here:3000")
    monkeypatch.setenv(name, "http://of.the.user:3000")
    for service in all_services(home):
        shown = "http://of.the.user:3000" if service.name == "master" else None
        assert service.environ.get(_SHOWN_GRAFANA) == shown


def test_without_a_grafana_nobody_is_told_of_one(home: Home, binary: Path) -> None:
    found = Services(home, workers=2)
    assert found.grafana_url is None
    assert _SHOWN_GRAFANA not in found.fixed[1].environ
    assert "grafana" not in {service.name for service in found.fixed}
    assert names.ENV_GRAFANA_URL not in found.fixed[2].environ


# --- What must be there. ---


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another Prometheus, the first on $PATH."""
    path = tmp_path / "on-path" / "prometheus"
    path.parent.mkdir()
    path.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(path.parent), prepend=os.pathsep)
    return path


@pytest.fixture
def from_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A third, where `make` puts it."""
    path = tmp_path / "checkout" / ".tools" / "prometheus" / "bin" / "prometheus"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    monkeypatch.setattr(services, "CHECKOUT", tmp_path / "checkout")
    return path


def test_prometheus_is_the_named_one_or_on_the_path_or_from_make(
    binary: Path, on_path: Path, from_make: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_prometheus() == binary
    monkeypatch.delenv("PROMETHEUS")
    assert find_prometheus() == on_path
    monkeypatch.setenv("PATH", "")
    assert find_prometheus() == from_make
    from_make.unlink()
    with pytest.raises(StackError, match="run `make install`"):
        find_prometheus()


def test_a_named_prometheus_that_is_not_there_is_an_error(
    on_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS", "/nowhere/prometheus")
    with pytest.raises(StackError, match=re.escape("$PROMETHEUS")):
        find_prometheus()


def test_the_web_pages_of_an_unpacked_debian_package_are_found(
    home: Home, from_make: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS", str(from_make))
    assert "web.local-assets" not in options(Services(home, workers=1).fixed[0])
    pages = from_make.parents[1] / "share" / "prometheus" / "web"
    pages.mkdir(parents=True)
    assert options(Services(home, workers=1).fixed[0])["web.local-assets"] == str(pages)


def test_prometheus_is_told_what_it_must_do(home: Home, binary: Path) -> None:
    prometheus = all_services(home)[0]
    assert prometheus.command[0] == str(binary)
    assert "--web.enable-remote-write-receiver" in prometheus.command
    assert options(prometheus)["storage.tsdb.path"] == str(home.prometheus / "data")
    assert options(prometheus)["config.file"] == str(home.prometheus / "prometheus.yml")


def test_missing_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda module: None if module in {"torch", "psutil"} else module
    )
    with pytest.raises(StackError, match=re.escape("pip install 'mlbench[worker,exporter]'")):
        check_installed()
