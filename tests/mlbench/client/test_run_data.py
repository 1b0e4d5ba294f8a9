"""``mlbench.open``: archives as rows with run, rank, metric, step, epoch and time."""

import math
import zipfile
from array import array
from pathlib import Path

import pytest

import mlbench
from mlbench import archive
from mlbench.archive import RUN, ArchiveError, More, Piece, SeriesName
from mlbench.contract import names
from mlbench.contract.errors import ApiError, MLBenchError
from mlbench.contract.records import Run
from mlbench.local.home import Home
from tests.support.results import make_run
from tests.support.scripted import Asked, Reply, answering, serving

_SETS = Path(__file__).parents[3] / "docs" / "archives"


def _numbers(times: list[int], values: list[float]) -> list[Piece]:
    return [Piece(array("q", times), array("d", values))]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "first-7.mlbench"
    late = Piece(array("q", [15]), array("d", [math.nan]), {0: More("diverged")}, kept=True)
    series = [
        (SeriesName("epoch", "0"), _numbers([20], [1.0])),
        (SeriesName("loss", "0"), [*_numbers([5, 10, 20, 25], [4.0, 3.0, 2.0, 1.0]), late]),
        (SeriesName("loss", "1"), _numbers([10], [7.0])),
        (SeriesName("note"), _numbers([10], [8.0])),
        # Not sorted, because late samples are stored after the others.
        (SeriesName("step", "0"), [*_numbers([20], [2.0]), *_numbers([10], [1.0])]),
        (SeriesName("cpu", pod="w-0"), _numbers([10], [9.0])),
    ]
    documents = {RUN: {"run": make_run(id=7, name="first").to_fields()}}
    archive.write(path, documents, [(name, iter(pieces)) for name, pieces in series])
    return path


def test_each_value_has_the_step_and_epoch_of_its_rank(file: Path) -> None:
    opened = mlbench.open(file)
    assert [(run.id, run.name) for run in opened.runs] == [(7, "first")]
    [run] = opened
    assert run.metrics == ("epoch", "loss", "note", "step"), "usage of pods is not a metric"
    rows = opened.table("loss", "note").to_pylist()
    columns = ("rank", "metric", "step", "epoch", "value", "text")
    assert [tuple(row[column] for column in columns) for row in rows] == [
        *((0, "loss", None, None, 4.0, None), (0, "loss", 1, None, 3.0, None)),
        (0, "loss", 1, None, None, "diverged"),
        *((0, "loss", 2, 1, 2.0, None), (0, "loss", 2, 1, 1.0, None)),
        *((1, "loss", None, None, 7.0, None), (None, "note", None, None, 8.0, None)),
    ]
    assert {row["run"] for row in rows} == {"first-7"}
    assert [row["time"].microsecond for row in rows] == [5, 10, 15, 20, 25, 10, 10]
    assert opened.table().num_rows == 10


def test_a_set_is_one_data_frame() -> None:
    opened = mlbench.open(_SETS / "results-cifar10.mlbench")
    frame = opened.to_pandas("val_global_Prec@1")
    last = frame.groupby("run", observed=True)["value"].last()
    assert len(last) == len(opened.runs) > 1
    assert all(last > 70)
    assert (frame["step"] > 0).all()


def test_an_active_run_is_opened_by_name_or_page(
    stack: Home, active_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_HOME, str(stack.root))
    for source in (active_run.name, f"{stack.read_connection().url}/runs/{active_run.id}"):
        [opened] = mlbench.open(source)
        rows = opened.table("train_loss").to_pylist()
        assert opened.run.id == active_run.id
        assert rows
        assert all(row["rank"] in {0, 1} and row["value"] > 0 <= row["step"] for row in rows)
    with pytest.raises(MLBenchError, match="no such file or run: 'nobody'"):
        mlbench.open("nobody")


def test_a_restarted_run_without_an_archive_has_its_discarded_values() -> None:
    """They are in its archive."""
    run = make_run(id=9).to_fields()
    series = {"loss @ 0": [{"date": "2026-03-01T09:21:29Z", "value": "1"}]}

    def answer(asked: Asked) -> Reply:
        path, _, query = asked.path.partition("?")
        is_whole = "lineage=all" in query
        return Reply(body=run if path == "/api/runs/9/" else series if is_whole else {})

    with answering(answer) as master:
        assert mlbench.open(f"{master.url}/runs/9").table().num_rows == 1


def test_a_missing_metric_or_file_is_named(file: Path, tmp_path: Path) -> None:
    with pytest.raises(MLBenchError, match="has no metric 'lost'; it has epoch, loss, note, step"):
        mlbench.open(file).table("lost")
    with pytest.raises(MLBenchError, match=r"file .*none\.mlbench not found"):
        mlbench.open(tmp_path / "none.mlbench")
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(ArchiveError, match="is no archive"):
        mlbench.open(tmp_path / "text")


def test_an_archive_that_does_not_match_its_digests_is_refused(file: Path) -> None:
    with zipfile.ZipFile(file) as sealed:
        digests = sealed.read("digests.json")
    documents = {RUN: {"run": make_run(id=7, name="first").to_fields()}}
    with archive.opened(file) as whole:
        series = [(name, [*whole.read(name)]) for name in whole.series]
    series[2] = (series[2][0], _numbers([10], [0.999]))
    archive.write(file, documents, [(name, iter(pieces)) for name, pieces in series])
    with zipfile.ZipFile(file, "a") as forged:
        forged.filelist.remove(forged.NameToInfo.pop("digests.json"))
        forged.writestr("digests.json", digests)
    with file.open("r+b") as content:
        archive.put_digest(content)
    with pytest.raises(ArchiveError, match=r"does not match its digest \(series loss @ 1\)"):
        mlbench.open(file)


def test_samples_that_fill_memory_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlbench.archive.reading._MAX_TABLE_BYTES", 10)
    with pytest.raises(ArchiveError, match="its samples take more than 10 bytes"):
        mlbench.open(file)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        *((name, "resource_name") for name in ("/tmp/x", "a/../../x", "a\x1bb")),
        *(("../x", "archive"), ("..", "archive")),
    ],
)
def test_a_file_name_from_a_master_cannot_name_a_local_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, field: str
) -> None:
    owned = tmp_path / "owned"
    owned.write_text("my own")
    stated = str(owned) if name == "/tmp/x" else name
    fields = {**make_run(id=9, archive="first-9.mlbench").to_fields(), field: stated}
    with answering(lambda _: Reply(body=fields)) as master:
        with pytest.raises(ApiError, match=f"{field}: must be the name of a file"):
            mlbench.open(f"{master.url}/runs/9")
        assert [asked.path for asked in master.asked] == ["/api/runs/9/"]
    assert owned.read_text() == "my own"
    monkeypatch.chdir(tmp_path)
    document = {RUN: {"run": fields}}
    archive.write(tmp_path / "forged.mlbench", document, [])
    with pytest.raises(ArchiveError, match=f"{field}: must be the name of a file"):
        mlbench.open(tmp_path / "forged.mlbench")


@pytest.mark.parametrize(
    ("own", "user", "sent"),
    [
        ("http://127.0.0.1:9", "", None),
        ("", "", None),
        ("http://127.0.0.1:9", "user:theirs@", "Bearer theirs"),
        ("{master}/", "", "Bearer secret"),
    ],
)
def test_a_token_is_sent_only_to_its_own_master(
    file: Path, monkeypatch: pytest.MonkeyPatch, own: str, user: str, sent: str | None
) -> None:
    """A link in a message can name any host."""
    replies = {"/api/runs/9/": make_run(id=9, archive="a.mlbench").to_fields()}
    content = file.read_bytes()
    with answering(lambda asked: Reply(body=replies.get(asked.path, content))) as master:
        monkeypatch.setenv(names.ENV_URL, own.format(master=master.url))
        monkeypatch.setenv(names.ENV_TOKEN, "secret")
        [run] = mlbench.open(f"http://{user}127.0.0.1:{master.port}/runs/9")
        assert run.run.name == "first"
        assert {asked.headers.get("Authorization") for asked in master.asked} == {sent}


def test_a_link_to_another_master_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(names.ENV_TOKEN, "secret")
    with serving(Reply(401, {"status": 401, "message": "sign in"})) as master:
        refusal = f"{master.url}: the token is missing or wrong"
        with pytest.raises(MLBenchError, match=refusal):
            mlbench.open(f"{master.url}/runs/9")
