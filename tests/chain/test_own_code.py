"""The open division: any program that writes lines of JSON is evaluated like a task."""

from pathlib import Path

from mlbench import ApiClient
from tests.support.stacks import order_command, run_to_end

# A shell script that reaches the target in its third epoch, on rank 1 a moment later.
_TRAINING = r"""
say() { echo "{\"time\": $(date +%s.%N), $1}" >> "$MLBENCH_METRICS_FILE"; }
say '"goal": {"metric": "val_accuracy", "value": 0.8}'
say "\"settings\": {\"batch_size\": 32, \"data\": \"none\", \"seed\": $MLBENCH_SEED}"
sleep 0.$RANK
for epoch in 0 1 2 3; do
  totals="\"train_seconds\": $((10 * epoch)), \"samples\": $((100 * epoch)), \"epoch\": $epoch"
  say "\"metrics\": {\"val_accuracy\": 0.$((6 + epoch)), $totals}"
  sleep 0.05
done
echo "worker $RANK of $WORLD_SIZE, told $@, in $PWD"
"""


def test_a_shell_script_has_a_result(client: ApiClient, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(_TRAINING)
    command = "sh train.sh {rank} {run_id} {backend} {hosts}"
    ordered = order_command(
        client, "shell", command, num_workers=2, working_dir=str(tmp_path), seed=7
    )
    ended = run_to_end(client, ordered)
    assert ended.state == "FINISHED", ended.reason
    result = client.get_result(ended.id).result().value
    logs = [client.get_logs(ended.id, rank).result().value.text for rank in (0, 1)]
    manifest = client.get_manifest(ended.id).result().value

    assert logs == [
        f"worker {rank} of 2, told {rank} {ended.id} gloo 127.0.0.1,127.0.0.1, in {tmp_path}\n"
        for rank in (0, 1)
    ]
    assert (result.division, result.rule_violations) == ("open", ())
    assert result.target is not None
    assert (result.target.metric, result.target.value) == ("val_accuracy", 0.8)
    assert result.time_to_target is not None
    assert result.time_to_target.training_seconds == 20
    assert 0 < result.time_to_target.wall_seconds < 30
    assert (result.last_value, result.best_value) == (0.9, 0.9)
    # Two ranks report 300 samples each in 30 seconds.
    assert (result.epochs, result.samples, result.samples_per_second) == (4, 600, 20)
    assert manifest.seed == 7
    assert manifest.settings == {"batch_size": 32, "data": "none", "seed": 7}
    assert manifest.working_dir == str(tmp_path)
    assert [machine.ranks for machine in manifest.machines] == [(0, 1)]
