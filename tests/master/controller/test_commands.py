"""Commands: an official task with its arguments, or a user's own with its braces filled in."""

from peewee import Database

from master.controller.commands import command
from tests.master.making import make_run

HOSTS = ["10.0.0.1", "10.0.0.2"]
PYTHON = "/opt/python"


def test_an_official_task(database: Database) -> None:
    run = make_run(benchmark="steps", args={"steps": "20", "rate": "10"})
    expected = [PYTHON, "-m", "worker.tasks.steps", "--steps", "20", "--rate", "10"]
    assert command(run, 1, HOSTS, PYTHON) == expected


def test_a_users_own(database: Database) -> None:
    run = make_run(
        benchmark="",
        backend="nccl",
        command="python main.py --run_id {run_id} 'a b' --rank={rank} {hosts} {backend} {other} {}",
    )
    assert command(run, 1, HOSTS, PYTHON) == [
        *("python", "main.py", "--run_id", str(run.id), "a b", "--rank=1"),
        *("10.0.0.1,10.0.0.2", "nccl", "{other}", "{}"),
    ]


def test_a_users_own_is_told_of_gpu_and_light_target(database: Database) -> None:
    run = make_run(benchmark="", command="python main.py", gpu_enabled=True, light_target=True)
    assert command(run, 0, HOSTS, PYTHON) == ["python", "main.py", "--gpu", "--light"]


def test_where_rank_0_alone_runs_it(database: Database) -> None:
    run = make_run(benchmark="", command="mpirun python main.py", run_all_nodes=False)
    assert command(run, 0, HOSTS, PYTHON) == ["mpirun", "python", "main.py"]
    assert command(run, 1, HOSTS, PYTHON) == ["true"]
