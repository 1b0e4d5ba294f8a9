"""Files written to ``$MLBENCH_OUTPUT`` are listed, downloaded and archived."""

from pathlib import Path

from mlbench import ApiClient
from tests.mlbench.cli.conftest import Mlbench
from tests.support.stacks import order_command, run_to_end

_TRAINING = r"""
mkdir "$MLBENCH_OUTPUT/plots"
printf 'rank,%s\n' "$RANK" > "$MLBENCH_OUTPUT/plots/loss.csv"
[ "$RANK" = 1 ] || head -c 2000000 /dev/zero > "$MLBENCH_OUTPUT/model.pt"
"""


def test_files_of_two_ranks(here: Mlbench, client: ApiClient, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(_TRAINING)
    ordered = order_command(client, "left", "sh train.sh", num_workers=2, working_dir=str(tmp_path))
    run = run_to_end(client, ordered)
    assert run.state == "FINISHED", run.reason

    done = here("files", "left", "-o", "got", "--json")
    [model, first, second] = sorted(done.json, key=lambda file: (file["name"], file["rank"]))
    assert (first["name"], first["left"], second["rank"]) == ("plots/loss.csv", "", 1)
    assert Path(model["path"]).stat().st_size == model["size"] == 2_000_000
    for rank in (0, 1):
        got = tmp_path / "got" / f"rank-{rank}" / "plots" / "loss.csv"
        assert got.read_text() == f"rank,{rank}\n"
    assert not (tmp_path / "got" / "rank-0" / "model.pt").exists()
    text = here("files", "left").out
    assert f"model.pt stays at {model['path']}: it has more than 1 MiB" in text

    assert here("verify", "left", "--json").json["problems"] == []
