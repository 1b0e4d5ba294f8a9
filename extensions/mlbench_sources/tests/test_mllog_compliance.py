"""MLPerf's compliance checker, with rules for MLBench's benchmarks, accepts the log of a run."""

import sys
from pathlib import Path

import pytest

from mlbench import ApiClient
from tests.support.processes import run_text
from tests.support.stacks import run_to_end

_RULES = Path(__file__).parents[1] / "docs" / "mllog.yaml"


def check(file: Path) -> str:
    """Return the complaints of the checker, or "" if the log passes."""
    command = [*(sys.executable, "-m", "mlperf_logging.compliance_checker", "--werror")]
    command += ["--config", str(_RULES), "--log_output", str(file.with_suffix(".out")), str(file)]
    done = run_text(command)
    return "" if done.returncode == 0 else done.stderr


@pytest.mark.slow
def test_a_run_of_an_official_task_complies(client: ApiClient, tmp_path: Path) -> None:
    logs = {}
    for target, epochs in (("93", "30"), ("99.9", "1")):
        args = {"goal": target, "epochs": epochs}
        ordered = client.create_run("mllog", 2, None, benchmark="digits-linear", args=args)
        ended = run_to_end(client, ordered.result().value)
        assert ended.state == "FINISHED", ended.reason
        file = tmp_path / f"{target}.mllog"
        with file.open("wb") as log:
            client.download(ended.id, log, format="mllog")
        assert check(file) == ""
        logs[target] = file.read_text()
    reached, not_reached = logs.values()
    assert '"status": "success"' in reached
    assert '"status": "aborted"' in not_reached
    # The checker refuses a false claim of success.
    file.write_text(not_reached.replace("aborted", "success"))
    assert "failed test" in check(file)
