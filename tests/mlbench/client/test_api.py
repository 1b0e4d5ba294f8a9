"""How a client gets to its master: by address, by home folder, and with which token."""

import inspect

import pytest

from mlbench import ApiClient, MLBenchError
from mlbench.client import ApiError
from mlbench.errors import NotConnectedError
from mlbench.home import Home
from tests.mlbench.client.scripted import Reply, serving


def test_it_finds_the_stack_by_its_home(stack: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLBENCH_HOME", str(stack.root))
    with ApiClient.from_home() as client:
        assert client.get_worker_pods().result().status_code == 200


def test_without_a_home_it_finds_the_master_that_the_environment_names(
    stack: Home, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("MLBENCH_HOME", str(tmp_path_factory.mktemp("empty")))
    monkeypatch.setenv("MLBENCH_URL", stack.read_connection().url)
    monkeypatch.setenv("MLBENCH_TOKEN", stack.read_connection().token)
    with ApiClient.from_home() as client:
        assert client.get_worker_pods().result().status_code == 200


def test_without_a_stack_there_is_no_client(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("MLBENCH_HOME", str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(NotConnectedError):
        ApiClient.from_home()


def test_an_address_may_be_short_and_carry_the_token(stack: Home) -> None:
    connection = stack.read_connection()
    place = connection.url.removeprefix("http://")
    for url in (f"user:{connection.token}@{place}", f"http://user:{connection.token}@{place}/"):
        with ApiClient(url=url) as client:
            assert client.get_worker_pods().result().status_code == 200


def test_a_wrong_token_is_refused(stack: Home) -> None:
    with (
        ApiClient(url=stack.read_connection().url, token="wrong") as client,
        pytest.raises(ApiError, match="show the token") as refused,
    ):
        client.get_runs().result()
    assert refused.value.status == 401


@pytest.mark.parametrize(
    ("user", "token", "variable", "sent"),
    [
        ("user:from%40url@", "argument", "variable", "Bearer argument"),
        ("user:from%40url@", None, "variable", "Bearer from@url"),
        ("", None, "variable", "Bearer variable"),
        ("", None, "", None),
    ],
)
def test_which_token_is_shown(
    monkeypatch: pytest.MonkeyPatch, user: str, token: str | None, variable: str, sent: str | None
) -> None:
    monkeypatch.setenv("MLBENCH_TOKEN", variable)
    with serving(Reply()) as master:
        url = f"{user}127.0.0.1:{master.port}/some/path"
        with ApiClient(url=url, token=token) as client:
            client.get_runs().result()
    [asked] = master.asked
    assert asked.path == "/some/path/api/runs/"
    assert asked.headers.get("Authorization") == sent


def test_the_token_of_an_address_is_in_no_message() -> None:
    with serving(Reply(status=None)) as master:
        url = f"user:SECRET@127.0.0.1:{master.port}"
        with ApiClient(url=url) as client, pytest.raises(MLBenchError) as error:
            client.get_runs().result()
    assert "SECRET" not in str(error.value)


@pytest.mark.parametrize("url", ["", "http://", "host:port", "ftp://host", "user:token@"])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(MLBenchError, match=r"url: it must be host:port or http\(s\)://host:port"):
        ApiClient(url=url)


def test_arguments_are_those_of_mlbenchs_client() -> None:
    assert str(inspect.signature(ApiClient)).startswith(
        "(max_workers: int = 5, in_cluster: bool = True, "
        "label_selector: str = 'component=master,app=mlbench', k8s_namespace: str = 'default', "
        "url: str | None = None, load_config: bool = True, *,"
    )


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        (
            ApiClient.create_run,
            "name num_workers num_cpus max_bandwidth image backend custom_image_name "
            "custom_image_command custom_backend run_all_nodes gpu_enabled light_target",
        ),
        (ApiClient.delete_run, "run_id"),
        (ApiClient.download_run_metrics, "run_id since summarize"),
        (ApiClient.get_all_metrics, ""),
        (ApiClient.get_pod_metrics, "pod_id since summarize"),
        (ApiClient.get_run, "run_id"),
        (ApiClient.get_run_metrics, "run_id since summarize metric_filter last_n"),
        (ApiClient.get_runs, ""),
        (ApiClient.get_worker_pods, ""),
        (ApiClient.post_metric, "run_id name value cumulative metadata date"),
    ],
)
def test_methods_take_what_mlbenchs_take(method: object, arguments: str) -> None:
    assert callable(method)
    parameters = inspect.signature(method).parameters.values()
    positional = [part.name for part in parameters if part.kind is part.POSITIONAL_OR_KEYWORD]
    assert positional == ["self", *arguments.split()]
