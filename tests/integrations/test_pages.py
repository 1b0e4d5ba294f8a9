"""The command of a page whose script other tests start in another way."""

from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.home import Home
from tests.support.known import known
from tests.support.pages import order_as_printed
from tests.support.stacks import assert_counted


@pytest.mark.slow
def test_the_command_of_mlflows_page_starts_its_script(
    client: ApiClient, stack: Home, integrations: str, tmp_path: Path
) -> None:
    ended = order_as_printed(
        client, stack, "mlflow", tmp_path, detach=False, venv=integrations, cli=integrations
    )
    assert ended.state == "FINISHED", ended.reason
    assert ended.num_workers == 2
    assert_counted(ended)
    assert known(ended.settings)["alpha"] == 0.001
