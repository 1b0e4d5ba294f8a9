"""``docs/monitoring.md``: all ways to install Grafana use the pinned archive and are complete."""

import re
import subprocess
from pathlib import Path

import yaml

from mlbench.local.grafana_archive import MONITORING_PAGE, VERSION, official_archive
from mlbench.local.grafana_server import find_grafana
from tests.support.archive_server import serving
from tests.support.documentation import MONITORING, commands_below

_ROOT = Path(__file__).parents[2]


def test_the_commands_for_the_archive_unpack_a_grafana(tmp_path: Path) -> None:
    intel, arm = map(official_archive, ("x86_64", "aarch64"))
    commands = commands_below("From the archive")
    assert arm.url == intel.url.replace("amd64", "arm64")
    assert arm.sha256 in MONITORING
    with serving() as server:
        for pinned, local in ((intel.url, server.url), (intel.sha256, server.archive.sha256)):
            assert pinned in commands
            commands = commands.replace(pinned, local)
        last = f"GRAFANA=$PWD/grafana-{VERSION} mlbench up\n"
        assert commands.endswith(last)
        script = f"set -e\n{commands.removesuffix(last)}"
        subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True, capture_output=True)
    assert find_grafana({"GRAFANA": str(tmp_path / f"grafana-{VERSION}")})


def test_the_container_has_everything_that_the_provisioning_files_need() -> None:
    commands = commands_below("In a container")
    provisioning = _ROOT / "grafana" / "provisioning"
    needed = {
        variable
        for file in provisioning.glob("*/*.yml")
        for variable in re.findall(r"^[^#\n]*\$(\w+)", file.read_text(), re.MULTILINE)
    }
    assert needed <= set(re.findall(r"--env (\w+)", commands))
    assert '--volume "$PWD/grafana:/mlbench:ro"' in commands
    for folder in re.findall(r"=/mlbench/(\w+)", commands):
        assert (_ROOT / "grafana" / folder).is_dir()


def test_all_files_name_the_same_grafana_version() -> None:
    values = yaml.safe_load((_ROOT / "helm" / "mlbench" / "values.yaml").read_text())
    assert values["grafana"]["image"]["tag"] == VERSION
    assert set(re.findall(r"grafana/grafana:(\S+)", MONITORING)) == {VERSION}
    assert f"downloads Grafana {VERSION} " in MONITORING
    page, _, anchor = MONITORING_PAGE.partition("#")
    heading = anchor.replace("-", " ")
    assert f"\n## {heading.capitalize().replace('grafana', 'Grafana')}\n" in MONITORING
    assert (_ROOT / page).is_file()
