"""Services of the stack: ports, secrets, environment, and required programs."""

import os
import re
import socket
import stat
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

from mlbench.contract import names, pod_token
from mlbench.contract.errors import StackError
from mlbench.contract.login import split_login
from mlbench.contract.pod_token import PodIdentity, identify
from mlbench.local import network, stack_services
from mlbench.local.assets import grafana_folder
from mlbench.local.grafana_api import DATA_SOURCE_NAME, DATA_SOURCE_UID, FOLDER_TITLE, FOLDER_UID
from mlbench.local.home import Home
from mlbench.local.stack_services import (
    THIS_MACHINE,
    Listen,
    Service,
    StackServices,
    alertmanager_targets,
    check_installed,
    external_labels,
    find_prometheus,
    port_exactly,
    port_near,
    stack_cores,
)
from tests.conftest import free_port
from tests.support.known import known

_SECRETS = {names.ENV_TOKEN, names.ENV_AGENT_SECRET}
_PROMETHEUS_LOGIN = (names.ENV_PROMETHEUS_USER, names.ENV_PROMETHEUS_PASSWORD)
_USERS_GRAFANA = (names.ENV_GRAFANA_URL, names.ENV_GRAFANA_TOKEN, names.ENV_GRAFANA_PROMETHEUS_URL)
_SHOWN_GRAFANA = names.ENV_GRAFANA_PUBLIC_URL
_NOTIFICATIONS = (names.ENV_NOTIFY_URL, names.ENV_ALERTMANAGER_CONFIG)


@pytest.fixture
def used_port() -> Iterator[int]:
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def program(path: Path) -> Path:
    """Create an executable file that is used as a program; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)
    return path


@pytest.fixture(autouse=True)
def binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prometheus named by $PROMETHEUS. There is no Grafana and no switch, even if installed."""
    monkeypatch.setattr(network, "probe", lambda: network.LocalNetwork("no tc", "no netem"))
    for name in (*_USERS_GRAFANA, _SHOWN_GRAFANA, *_NOTIFICATIONS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GRAFANA", str(tmp_path / "nowhere"))
    path = program(tmp_path / "given" / "prometheus")
    monkeypatch.setenv("PROMETHEUS", str(path))
    return path


@pytest.fixture
def grafana(tmp_path: Path, binary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = program(tmp_path / "given" / "grafana")
    monkeypatch.setenv("GRAFANA", str(path))
    return path


def all_services(home: Home, listen: Listen = THIS_MACHINE) -> dict[str, Service]:
    found = StackServices(home, 2, listen)
    return {service.name: service for service in (*found.fixed, found.worker(0))}


def secret_of(home: Home, file: str) -> str:
    return (home.root / file).read_text().strip()


def options(service: Service) -> dict[str, str]:
    """Return the ``--key value`` and ``--key=value`` options of a service's command."""
    return dict(re.findall(r"--([\w.-]+)[= ](\S+)", " ".join(service.command)))


# --- Ports. ---


def test_a_free_port_is_assigned_once(used_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Stacks that are started at the same time need different ports.
    first, second = port_near(used_port), port_near(used_port)
    assert used_port < first < second < used_port + 200
    port = free_port()
    assert port_exactly(port) == port
    for not_free in (used_port, port):
        with pytest.raises(StackError, match=f"port {not_free} is used by another program"):
            port_exactly(not_free)
    monkeypatch.setattr(stack_services, "_PORTS_TRIED", 1)
    with pytest.raises(StackError, match=f"no port from {used_port} to {used_port} is free"):
        port_near(used_port)


def test_every_service_has_a_separate_local_port(home: Home) -> None:
    port = free_port()
    found = StackServices(home, 2, Listen(port=port))
    assert found.connection.url == f"http://127.0.0.1:{port}"
    every = (*found.fixed, found.worker(0), found.worker(1))
    assert len({service.port for service in every}) == len(every) == 6
    assert found.worker(1) == every[-1], "a worker must keep its port"
    prometheus, master = every[:2]
    assert options(prometheus)["web.listen-address"] == prometheus.address
    assert options(master)["bind"] == master.address == f"127.0.0.1:{port}"


# --- Secrets and environment. ---


def test_secrets_are_private_and_permanent_and_only_the_master_gets_them(home: Home) -> None:
    first, by_name = StackServices(home, workers=2), all_services(home)
    files = ("token", "agent-secret", "prometheus-password")
    token, agent_secret, _ = secrets = [secret_of(home, file) for file in files]
    assert stat.S_IMODE((home.root / "token").stat().st_mode) == 0o600
    assert first.connection.token == token == by_name["master"].environ[names.ENV_TOKEN]
    assert by_name["master"].environ[names.ENV_AGENT_SECRET] == agent_secret
    few = {name for name, service in by_name.items() if "MALLOC_ARENA_MAX" in service.environ}
    assert few == {"master", "controller"}, "training processes have the allocator's defaults"
    holders = {name for name, service in by_name.items() if _SECRETS & {*service.environ}}
    assert holders == {"master"}
    commands = " ".join(word for service in by_name.values() for word in service.command)
    assert len({*secrets}) == 3
    for secret in secrets:
        assert len(secret) >= 40
        assert secret not in commands
    # A power cut can leave an empty file.
    (home.root / "token").write_text("")
    assert len(StackServices(home, workers=2).connection.token) >= 40


def test_each_worker_has_the_token_of_its_pod(home: Home) -> None:
    found = StackServices(home, workers=2)
    for number in (0, 1):
        worker = found.worker(number)
        file = Path(options(worker)["token-file"])
        assert stat.S_IMODE(file.stat().st_mode) == 0o400
        identity = identify(pod_token.read(file), secret_of(home, "agent-secret"))
        assert identity == PodIdentity(worker.name, "")


def test_variables_of_another_stack_are_removed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {value for key, value in vars(names).items() if key.startswith("ENV_")}
    of_the_user = {names.ENV_DATASETS, names.ENV_FORK_SERVER, names.ENV_GIT_COMMIT, names.ENV_USER}
    for name in ours - {*_USERS_GRAFANA, _SHOWN_GRAFANA, *_NOTIFICATIONS}:
        monkeypatch.setenv(name, "foreign")
    for service in all_services(home).values():
        kept = {name for name, value in service.environ.items() if value == "foreign"}
        # Processes that run user code must not get the database password.
        of_the_master = service.name in ("master", "controller")
        assert kept - of_the_user == ({names.ENV_DATABASE_URL} if of_the_master else set())
        assert kept >= of_the_user, service.name
        assert service.environ[names.ENV_HOME] == str(home.root)


def test_the_stacks_traffic_bypasses_proxies(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    for given, expected in (("", "127.0.0.1"), ("corp.example", "corp.example,127.0.0.1")):
        monkeypatch.setenv("NO_PROXY", given)
        for service in all_services(home).values():
            assert service.environ["no_proxy"] == service.environ["NO_PROXY"] == expected


# --- The network of workers. ---


def test_the_master_gets_the_networks_limits(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    told = all_services(home)["master"].environ
    assert (told[names.ENV_NO_BANDWIDTH], told[names.ENV_NO_LATENCY]) == ("no tc", "no netem")
    able = network.LocalNetwork(unshare=("unshare", "--net"))
    monkeypatch.setattr(network, "probe", lambda: able)
    found = all_services(home)
    assert found["master"].environ[names.ENV_NO_BANDWIDTH] == ""
    assert found["network"].command[-1] == str(home.switch)
    assert found["network"].optional


# --- Grafana. ---


def test_the_grafana_is_optional_and_the_master_links_to_it(home: Home, grafana: Path) -> None:
    stack = StackServices(home, workers=5)
    _, master, controller, _, shown = stack.fixed
    assert [service.name for service in stack.fixed if service.optional] == ["grafana"]
    assert shown.command[0] == str(grafana)
    assert stack.connection.grafana_url == f"http://127.0.0.1:{shown.port}"
    assert master.environ[_SHOWN_GRAFANA] == stack.connection.grafana_url
    assert master.environ[names.ENV_WORKERS] == controller.environ[names.ENV_WORKERS] == "5"
    password = secret_of(home, "grafana-password")
    assert stat.S_IMODE((home.root / "grafana-password").stat().st_mode) == 0o600
    assert shown.environ["GF_SECURITY_ADMIN_PASSWORD"] == password
    # Viewers can read the URL, so it has no password.
    url, login = split_login(known(stack.connection.prometheus_url))
    assert shown.environ[names.ENV_PROMETHEUS_URL] == url
    assert tuple(shown.environ[name] for name in _PROMETHEUS_LOGIN) == login


def provisioned(kind: str, environ: Mapping[str, str]) -> Any:
    """Return the only entry of a provisioning file, with variables substituted as in Grafana."""
    [file] = (Path(environ["GF_PATHS_PROVISIONING"]) / kind).glob("*.yml")
    content = yaml.safe_load(Template(file.read_text()).substitute(environ))
    [[entry]] = (value for value in content.values() if isinstance(value, list))
    return entry


@pytest.mark.usefixtures("grafana")
def test_the_stacks_grafana_is_provisioned_without_settings_of_another(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GF_DATABASE_URL", "postgres://of-another-grafana")
    stack = StackServices(home, workers=2)
    environ = stack.fixed[-1].environ
    assert not {"GF_DATABASE_URL", *_SECRETS} & environ.keys()
    place, login = split_login(known(stack.connection.prometheus_url))
    source = provisioned("datasources", environ)
    assert (source["uid"], source["name"]) == (DATA_SOURCE_UID, DATA_SOURCE_NAME)
    assert (source["url"], source["basicAuth"]) == (place, True)
    shown = (source["basicAuthUser"], source["secureJsonData"]["basicAuthPassword"])
    assert shown == login
    assert source["jsonData"] == {"httpMethod": "POST", "timeInterval": "2s"}
    provider = provisioned("dashboards", environ)
    assert (provider["folderUid"], provider["folder"]) == (FOLDER_UID, FOLDER_TITLE)
    assert provider["options"]["path"] == str(grafana_folder() / "dashboards")


def test_only_the_controller_gets_an_existing_grafana_and_the_webhook(
    home: Home, grafana: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = [*_USERS_GRAFANA, names.ENV_NOTIFY_URL]
    for name in variables:
        monkeypatch.setenv(name, "of the user")
    for service in all_services(home).values():
        keys = [name for name in variables if service.environ.get(name) == "of the user"]
        assert keys == (variables if service.name == "controller" else [])
    # The web pages link to this Grafana, by the public address if it is set.
    assert all_services(home)["master"].environ[_SHOWN_GRAFANA] == "of the user"
    monkeypatch.setenv(_SHOWN_GRAFANA, "for browsers")
    shown = {s.name: s.environ.get(_SHOWN_GRAFANA) for s in all_services(home).values()}
    assert shown.pop("master") == "for browsers"
    assert {*shown.values()} == {None}


def test_an_existing_prometheus_and_grafana_replace_those_of_the_stack(
    home: Home, grafana: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS", "/nowhere/prometheus")
    url = "https://prometheus.example.com/path"
    monkeypatch.setenv(names.ENV_PROMETHEUS_URL, url.replace("//", "//u:p@"))
    assert StackServices(home, workers=2).connection.existing_prometheus
    found = all_services(home)
    assert "prometheus" not in found
    shown, master = found["grafana"].environ, found["master"].environ
    assert master[names.ENV_PROMETHEUS_URL] == "https://u:p@prometheus.example.com/path"
    assert names.ENV_PROMETHEUS_WRITE_URL not in master
    assert master[names.ENV_PROMETHEUS_PUBLIC_URL] == shown[names.ENV_PROMETHEUS_URL] == url
    login = (names.ENV_PROMETHEUS_BASIC_AUTH, *_PROMETHEUS_LOGIN)
    assert [shown[name] for name in login] == ["true", "u", "p"]
    assert not (home.root / "prometheus-port").exists()

    monkeypatch.setenv(names.ENV_PROMETHEUS_URL, "http://prometheus.example.com:9090")
    monkeypatch.setenv(names.ENV_PROMETHEUS_WRITE_URL, "http://write.example.com/receive")
    found = all_services(home)
    written = found["master"].environ[names.ENV_PROMETHEUS_WRITE_URL]
    assert written == "http://write.example.com/receive"
    assert [found["grafana"].environ[name] for name in login] == ["false", "", ""]
    monkeypatch.setenv(names.ENV_GRAFANA_URL, "http://grafana.example.com/")
    assert "grafana" not in all_services(home)
    connection = StackServices(home, workers=2).connection
    assert connection.existing_grafana
    assert connection.grafana_url == "http://grafana.example.com"
    # The variables describe the master at $MLBENCH_URL, so the stack ignores them.
    monkeypatch.setenv(names.ENV_URL, "http://master.example.com")
    monkeypatch.setenv("PROMETHEUS", str(program(home.root.parent / "prometheus")))
    stack = StackServices(home, workers=2)
    assert {"prometheus", "grafana"} <= {service.name for service in stack.fixed}
    [master] = [service.environ for service in stack.fixed if service.name == "master"]
    assert master[_SHOWN_GRAFANA] == stack.connection.grafana_url
    assert not stack.connection.existing_prometheus


def test_settings_of_the_stacks_prometheus_are_refused_with_an_existing_one(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in ("localhost:9090", "ftp://p", "http://"):
        monkeypatch.setenv(names.ENV_PROMETHEUS_URL, wrong)
        with pytest.raises(StackError, match="PROMETHEUS_URL: must be a URL such as http://"):
            StackServices(home, 1)
    monkeypatch.setenv(names.ENV_PROMETHEUS_URL, "http://p:9090")
    with pytest.raises(StackError, match="--prometheus-port: the stack starts no Prometheus"):
        StackServices(home, 1, Listen(prometheus_port=free_port()))
    for name in (names.ENV_ALERTMANAGERS, names.ENV_ALERTMANAGER_CONFIG, names.ENV_EXTERNAL_LABELS):
        with monkeypatch.context() as patch:
            patch.setenv(name, "http://alerts:9093")
            with pytest.raises(StackError, match=f"{name}: needs the stack's own Prometheus"):
                StackServices(home, 1)


# --- Required programs. ---


def test_prometheus_is_found_by_variable_on_path_or_from_make(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = program(tmp_path / "on-path" / "prometheus")
    from_make = program(tmp_path / ".tools" / "prometheus" / "bin" / "prometheus")
    monkeypatch.setattr(stack_services, "CHECKOUT", tmp_path)
    monkeypatch.setenv("PATH", str(on_path.parent), prepend=os.pathsep)
    assert find_prometheus() == binary
    monkeypatch.delenv("PROMETHEUS")
    assert find_prometheus() == on_path
    monkeypatch.setenv("PATH", "")
    assert find_prometheus() == from_make
    from_make.unlink()
    with pytest.raises(StackError, match="apt install prometheus"):
        find_prometheus()
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("PROMETHEUS", "/nowhere/prometheus")
    with pytest.raises(StackError, match=re.escape("$PROMETHEUS")):
        find_prometheus()


def test_an_alertmanager_is_started_if_its_configuration_is_named(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "alertmanager" not in all_services(home)
    config = tmp_path / "alertmanager.yml"
    monkeypatch.setenv(names.ENV_ALERTMANAGER_CONFIG, "alertmanager.yml")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StackError, match=re.escape(f"CONFIG: file not found (got {config})")):
        StackServices(home, 2)
    config.touch()
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("ALERTMANAGER", raising=False)
    with pytest.raises(StackError, match=r"Alertmanager not found\. Install it"):
        StackServices(home, 2)
    on_path = program(tmp_path / "on-path" / "alertmanager")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert all_services(home)["alertmanager"].command[0] == str(on_path)
    monkeypatch.setenv("ALERTMANAGER", str(program(tmp_path / "named")))
    service = all_services(home)["alertmanager"]
    assert service.command[0] == str(tmp_path / "named")
    assert options(service)["config.file"] == str(config)
    assert options(service)["web.listen-address"] == service.address
    prometheus = all_services(home)["prometheus"]
    assert (service.login, service.metrics_path) == (prometheus.login, prometheus.metrics_path)


def test_the_web_pages_of_an_unpacked_debian_package_are_found(home: Home, binary: Path) -> None:
    assert "web.local-assets" not in options(all_services(home)["prometheus"])
    pages = binary.parents[1] / "share" / "prometheus" / "web"
    pages.mkdir(parents=True)
    assert options(all_services(home)["prometheus"])["web.local-assets"] == str(pages)


def test_missing_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    absent = {"torch", "psutil"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in absent else name)
    with pytest.raises(StackError, match=re.escape("pip install '.[worker,exporter]'")):
        check_installed()


@pytest.mark.parametrize(
    ("cores", "bound"),
    [({0}, None), ({0, 1, 2}, None), ({0, 1, 2, 3}, {3}), (set(range(4, 20)), {16, 17, 18, 19})],
)
def test_services_run_on_the_last_of_four_cores(cores: set[int], bound: set[int] | None) -> None:
    assert stack_cores(cores) == bound


def test_prometheus_keeps_its_port_between_starts(home: Home) -> None:
    home.make()
    port = free_port()
    (home.root / "prometheus-port").write_text(f"{port}\n")
    assert all_services(home)["prometheus"].port == port
    # The port is in use by another stack, so Prometheus gets another port.
    assert all_services(home)["prometheus"].port != port


@pytest.mark.parametrize(
    ("host", "binds"),
    [
        *(("127.0.0.1", ["127.0.0.1"]), ("0.0.0.0", ["0.0.0.0"])),
        ("127.0.0.2", ["127.0.0.1", "127.0.0.2"]),
    ],
)
def test_the_api_listens_on_localhost_as_well(home: Home, host: str, binds: list[str]) -> None:
    master = all_services(home, Listen(host))["master"]
    bound = [after for word, after in pairwise(master.command) if word == "--bind"]
    assert [address.partition(":")[0] for address in bound] == binds
    hosts = master.environ.get("MLBENCH_ALLOWED_HOSTS", "")
    assert (host in hosts.split(",")) == (host != "127.0.0.1")
    # An address of another machine is refused.
    with pytest.raises(StackError, match=r"--host: not an IPv4 address .* \(got 192\.0\.2\.1\)"):
        StackServices(home, 1, Listen("192.0.2.1"))


def test_external_labels_are_parsed() -> None:
    assert external_labels("") == {}
    assert external_labels("cluster=lab, team=a=b,") == {"cluster": "lab", "team": "a=b"}
    for wrong in ("lab", "=lab", "cluster=", "a-b=c"):
        with pytest.raises(StackError, match="MLBENCH_EXTERNAL_LABELS: must be NAME=VALUE"):
            external_labels(wrong)


def test_alertmanager_urls_are_parsed() -> None:
    assert alertmanager_targets("") == []
    labels = {"__url_scheme": "https", "__url_path": "/am/api/v2/alerts"}
    found = alertmanager_targets(" https://alerts.example.com/am/ ,")
    assert found == [{"targets": ["alerts.example.com"], "labels": labels}]
    for wrong in ("localhost:9093", "ftp://a", "http://u:p@host"):
        with pytest.raises(StackError, match="MLBENCH_ALERTMANAGERS: must be URLs"):
            alertmanager_targets(wrong)
