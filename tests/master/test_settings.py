"""Settings are read from the environment, with errors that name the variable."""

from pathlib import Path

import pytest

from mlbench_master.settings import (
    ClusterSettings,
    GrafanaSettings,
    Settings,
    SettingsError,
    SharedSettings,
)

ENVIRON = {
    "MLBENCH_HOME": "/somewhere",
    "MLBENCH_PROMETHEUS_URL": "http://127.0.0.1:9090",
    "MLBENCH_TOKEN": "secret",
    "MLBENCH_AGENT_SECRET": "other",
}


def test_settings_of_a_local_stack() -> None:
    settings = Settings.from_environ(ENVIRON)
    assert settings.home.root == Path("/somewhere")
    assert settings.database_url == "sqlite:////somewhere/mlbench.db"
    assert settings.prometheus_url == "http://127.0.0.1:9090"
    assert (settings.token, settings.agent_secret) == ("secret", "other")
    # Tokens are needed only by the API.
    without = {key: ENVIRON[key] for key in ("MLBENCH_HOME", "MLBENCH_PROMETHEUS_URL")}
    shared = SharedSettings.from_environ(without)
    assert (shared.database_url, shared.limits) == (settings.database_url, settings.limits)


def test_optional_settings() -> None:
    settings = Settings.from_environ(
        ENVIRON
        | {
            "DATABASE_URL": "sqlite:////elsewhere.db",
            "MLBENCH_WORKERS": "5",
            "MLBENCH_LIMIT_WORKERS": "64",
            "MLBENCH_LIMIT_GPUS": "2",
            "MLBENCH_LIMIT_SERIES": "300",
            # Ignored, because a local pool cannot limit bandwidth.
            "MLBENCH_LIMIT_BANDWIDTH": "100",
        }
    )
    limits = settings.limits
    assert (settings.database_url, settings.workers) == ("sqlite:////elsewhere.db", 5)
    assert (limits.workers, limits.gpus, limits.series, limits.bandwidth) == (64, 2, 300, 0.0)


def test_errors_do_not_show_the_url_of_the_webhook() -> None:
    assert Settings.from_environ(ENVIRON).notify_url == ""
    url = "https://hooks.slack.com/services/T0/B0/sesame?x=1"
    shared = SharedSettings.from_environ(ENVIRON | {"MLBENCH_NOTIFY_URL": f"{url}\n"})
    assert shared.notify_url == url
    rule = r"\$MLBENCH_NOTIFY_URL: must be an http or https URL, such as .* \(got another text"
    for wrong in ("slack.com/sesame", "ftp://h/sesame", "http://h:sesame/", "https:///sesame"):
        with pytest.raises(SettingsError, match=rule) as raised:
            SharedSettings.from_environ(ENVIRON | {"MLBENCH_NOTIFY_URL": wrong})
        assert "sesame" not in str(raised.value)


def test_settings_of_grafana() -> None:
    assert Settings.from_environ(ENVIRON | {"GRAFANA_TOKEN": "t"}).grafana is None
    environ = ENVIRON | {"GRAFANA_URL": "http://grafana:3000"}
    assert Settings.from_environ(environ | {"GRAFANA_TOKEN": "glsa_1"}).grafana == GrafanaSettings(
        "http://grafana:3000", "glsa_1", "http://127.0.0.1:9090", "2s"
    )
    environ["GRAFANA_PROMETHEUS_URL"] = "http://prometheus:9090"
    environ["MLBENCH_SCRAPE_INTERVAL"] = "15s"
    assert Settings.from_environ(environ).grafana == GrafanaSettings(
        "http://grafana:3000", "", "http://prometheus:9090", "15s"
    ), "a missing token is an error only when Grafana is called"


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, None),
        ({"GRAFANA_URL": "http://grafana:3000/"}, "http://grafana:3000"),
        ({"GRAFANA_URL": "http://g:1", "GRAFANA_PUBLIC_URL": "https://g.org"}, "https://g.org"),
        ({"GRAFANA_PUBLIC_URL": "https://g.org"}, "https://g.org"),
    ],
)
def test_the_public_url_of_grafana(environ: dict[str, str], url: str | None) -> None:
    assert Settings.from_environ(ENVIRON | environ).grafana_public_url == url


@pytest.mark.parametrize(
    "name", ["MLBENCH_PROMETHEUS_URL", "MLBENCH_TOKEN", "MLBENCH_AGENT_SECRET"]
)
@pytest.mark.parametrize("missing", [True, False])
def test_required_settings(name: str, missing: bool) -> None:
    environ = {key: value for key, value in ENVIRON.items() if key != name}
    with pytest.raises(SettingsError, match=rf"\${name}: not set"):
        Settings.from_environ(environ if missing else environ | {name: ""})


def test_settings_of_the_chart() -> None:
    settings = Settings.from_environ(
        ENVIRON
        | {
            "MLBENCH_POOL": "kubernetes",
            "MLBENCH_LIMIT_CPUS": "1500m",
            "MLBENCH_LIMIT_BANDWIDTH": "250.5",
            "MLBENCH_START_SECONDS": "600",
            "MLBENCH_IDLE_SECONDS": "0",
            "MLBENCH_QUEUE": "always",
            "MLBENCH_CONCURRENT_RUNS": "3",
        }
    )
    limits = settings.limits
    assert (limits.pool, limits.always_queue, limits.concurrent_runs) == ("kubernetes", True, 3)
    assert (limits.cpus, limits.bandwidth, limits.gpus) == (1.5, 250.5, 0)
    assert (settings.start_seconds, settings.idle_seconds) == (600, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MLBENCH_POOL", "swarm"),
        ("MLBENCH_QUEUE", "never"),
        *(("MLBENCH_WORKERS", value) for value in ("0", "-1", "two", "1.5")),
        *(("MLBENCH_LIMIT_CPUS", value) for value in ("0", "m", "-1", "2Gi", "0.5.5")),
        *(("MLBENCH_LIMIT_BANDWIDTH", value) for value in ("-1", "fast", "inf", "nan")),
        ("MLBENCH_START_SECONDS", "0"),
        ("MLBENCH_CONCURRENT_RUNS", "0"),
        ("MLBENCH_IDLE_SECONDS", "-1"),
    ],
)
def test_invalid_values_are_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=rf"^\${name}: must be .* \(got '{value}'\)$"):
        Settings.from_environ(ENVIRON | {"MLBENCH_POOL": "kubernetes", name: value})


CLUSTER = {"MLBENCH_WORKER_MANIFEST": "/a.json", "MLBENCH_NAMESPACE": "a", "MLBENCH_OWNER": "b"}


@pytest.mark.parametrize("name", CLUSTER)
def test_required_settings_of_a_cluster(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"\${name}: not set"):
        ClusterSettings.from_environ(CLUSTER | {name: ""})
