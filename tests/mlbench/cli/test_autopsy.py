"""``mlbench autopsy`` and ``mlbench stacks``: asked of ranks that hang."""

from mlbench import ApiClient
from tests.mlbench.cli.conftest import Mlbench
from tests.support.stacks import order_command


def test_a_run_is_asked_why_it_does_not_go_on(mlbench: Mlbench, client: ApiClient) -> None:
    ordered = order_command(client, "hangs", "sleep 1000", num_workers=2)
    try:
        while client.get_run(ordered.id).result().value.started_at is None:
            pass
        text = mlbench("autopsy", "hangs").out
        assert text.startswith("cannot tell: ranks 0 and 1 ")
        assert text.splitlines()[0] in mlbench("status", "hangs").out
        [asked] = [
            e for e in client.get_run_events(ordered.id).result().value if e.kind == "autopsy"
        ]
        assert asked.text.endswith(text.splitlines()[0])
        assert "told a stack" in mlbench("stacks", "hangs").err
        assert "name one by --rank" in mlbench("stacks", "hangs", "--native").err
        no_python = mlbench("stacks", "hangs", "--native", "--rank", "1").err
        assert "there is no Python whose stack is known" in no_python
    finally:
        mlbench("stop", "hangs")
    # What is known is not asked again.
    assert mlbench("autopsy", "hangs", "--json").json["verdict"]["sentence"] == text.splitlines()[0]
