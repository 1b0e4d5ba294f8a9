"""Commands of pages whose scripts other tests start in another way."""

from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.home import Home
from tests.support.known import known
from tests.support.pages import order_as_printed
from tests.support.stacks import assert_counted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "settings"), [("keras", {"backend": "torch"}), ("mlflow", {"alpha": 0.001})]
)
def test_the_command_of_a_page_starts_its_script(
    page: str,
    settings: dict[str, object],
    client: ApiClient,
    stack: Home,
    integrations: str,
    tmp_path: Path,
) -> None:
    ended = order_as_printed(
        client, stack, page, tmp_path, detach=False, venv=integrations, cli=integrations
    )
    assert ended.state == "FINISHED", ended.reason
    assert ended.num_workers == 2
    assert_counted(ended)
    assert known(ended.settings).items() >= settings.items()
