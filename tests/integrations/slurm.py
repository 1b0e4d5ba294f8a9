"""A Slurm of two nodes on this machine, of Debian's slurm-wlm, all of it in a folder."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import free_port, wait_for
from tests.support.processes import run_text

_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
_CONFIG = """
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
MpiDefault=none
ReturnToService=2
NodeName=first NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4
NodeName=second NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=NO
"""


@dataclass(frozen=True)
class Slurm:
    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """The variables by which its commands find it."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *command: str | Path, **environ: str) -> str:
        """Return what a command of Slurm prints; one that fails is an AssertionError."""
        process = run_text(
            [*command], env={**os.environ, **self.environ, **environ}, cwd=self.folder, timeout=200
        )
        assert process.returncode == 0, f"{command}\n{process.stdout}\n{process.stderr}"
        return process.stdout


@contextmanager
def running_slurm(folder: Path, cluster: str) -> Iterator[Slurm]:
    """Run a Slurm until the block ends, with all that it writes in a folder; skip if it cannot."""
    programs = {
        name: shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in _PROGRAMS
    }
    missing = [name for name, path in programs.items() if path is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} missing: apt install slurm-wlm munge")
    if os.getuid() != 0:
        pytest.skip("Slurm's daemons need root here")
    slurm = Slurm(folder)
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    host, ports = socket.gethostname().partition(".")[0], [free_port() for _ in range(3)]
    config = _CONFIG.format(cluster=cluster, host=host, ports=ports, folder=folder)
    (folder / "slurm.conf").write_text(config)
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # which none of it uses
    munge = [f"--{name}={folder}/munge.{end}" for name, end in _MUNGE_FILES.items()]
    with ExitStack() as ending:

        def start(name: str, *options: str) -> None:
            with (folder / f"{name}.out").open("ab") as out:
                process = subprocess.Popen(
                    [str(programs[name]), *options],
                    stdout=out,
                    stderr=out,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, **slurm.environ},
                )
            ending.callback(process.wait)
            ending.callback(process.terminate)

        start("munged", "--foreground", "--force", "--num-threads=2", *munge)
        wait_for((folder / "munge.socket").exists, what="munged listens")
        start("slurmctld", "-D", "-i")
        start("slurmd", "-D", "-N", "first")
        start("slurmd", "-D", "-N", "second")
        wait_for(lambda: _is_idle(slurm), what="both nodes are idle")
        yield slurm


_MUNGE_FILES = {
    "key-file": "key",
    "socket": "socket",
    "pid-file": "pid",
    "log-file": "log",
    "seed-file": "seed",
}


def _is_idle(slurm: Slurm) -> bool:
    states = run_text(
        ["sinfo", "--noheader", "--Node", "--format=%t"], env={**os.environ, **slurm.environ}
    )
    return states.stdout.split() == ["idle", "idle"]
