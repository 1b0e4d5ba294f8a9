"""Settings: read from the environment once, with errors that name the variable."""

from pathlib import Path

import pytest

from master.settings import Settings, SettingsError

ENVIRON = {
    "MLBENCH_HOME": "/somewhere",
    "MLBENCH_PROMETHEUS_URL": "http://127.0.0.1:9090",
    "MLBENCH_TOKEN": "secret",
    "MLBENCH_AGENT_TOKEN": "other",
}


def test_what_a_local_stack_sets() -> None:
    settings = Settings.from_environ(ENVIRON)
    assert settings.home.root == Path("/somewhere")
    assert settings.database_url == "sqlite:////somewhere/mlbench.db"
    assert settings.prometheus_url == "http://127.0.0.1:9090"
    assert (settings.token, settings.agent_token) == ("secret", "other")
    assert settings.workers == 2
    assert settings.limits.workers == 16
    assert settings.limits.cpus >= 1


def test_what_else_can_be_set() -> None:
    settings = Settings.from_environ(
        ENVIRON
        | {
            "DATABASE_URL": "sqlite:////elsewhere.db",
            "MLBENCH_WORKERS": "5",
            "MLBENCH_LIMIT_WORKERS": "64",
        }
    )
    assert settings.database_url == "sqlite:////elsewhere.db"
    assert settings.workers == 5
    assert settings.limits.workers == 64


@pytest.mark.parametrize("name", ["MLBENCH_PROMETHEUS_URL", "MLBENCH_TOKEN", "MLBENCH_AGENT_TOKEN"])
@pytest.mark.parametrize("missing", [True, False])
def test_what_is_needed(name: str, missing: bool) -> None:
    environ = {key: value for key, value in ENVIRON.items() if key != name}
    with pytest.raises(SettingsError, match=rf"\${name} is not set"):
        Settings.from_environ(environ if missing else environ | {name: ""})


@pytest.mark.parametrize("name", ["MLBENCH_WORKERS", "MLBENCH_LIMIT_WORKERS"])
@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_numbers_are_whole_and_positive(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=rf"\${name} is '{value}'"):
        Settings.from_environ(ENVIRON | {name: value})
