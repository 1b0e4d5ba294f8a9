"""The home folder: location, permissions, and errors about its files."""

import os
import stat
from pathlib import Path

import pytest

from mlbench.contract import names
from mlbench.contract.errors import NotConnectedError
from mlbench.local.home import Home, StackConnection

_CONNECTION = StackConnection("http://127.0.0.1:8000", "secret", "http://127.0.0.1:9090")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_variable_names_the_folder_which_defaults_to_the_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for environ in ({}, {names.ENV_HOME: ""}):
        assert Home.from_environ(environ).root == tmp_path / ".local" / "share" / "mlbench"
    monkeypatch.chdir(tmp_path)
    found = Home.from_environ({names.ENV_HOME: "here"})
    monkeypatch.chdir("/")
    assert found.root == tmp_path / "here"


def test_only_its_owner_can_read_a_written_connection(home: Home) -> None:
    before = os.umask(0)
    try:
        home.write_connection(_CONNECTION)
        home.write_connection(_CONNECTION)
    finally:
        os.umask(before)
    assert home.read_connection() == _CONNECTION
    assert mode(home.connection_file) == 0o600


def test_a_missing_stack_is_reported_with_the_remedy(home: Home) -> None:
    missing = r"no stack is running here .*`mlbench up`"
    with pytest.raises(NotConnectedError, match=missing) as error:
        home.read_connection()
    assert str(home.connection_file) in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"url": "http://127.0.0.1:8000"}', '{"a": 1}'),
        '{"url": 1, "token": "t", "prometheus_url": null}',
    ],
)
def test_a_damaged_connection_is_reported_with_the_remedy(home: Home, text: str) -> None:
    home.make()
    home.connection_file.write_text(text)
    with pytest.raises(NotConnectedError, match=r"damaged. Run `mlbench down`, then `mlbench up`"):
        home.read_connection()


def test_a_home_that_is_not_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotConnectedError, match=r"Not a directory.*MLBENCH_HOME must name a fold"):
        Home(tmp_path / "file").read_connection()
