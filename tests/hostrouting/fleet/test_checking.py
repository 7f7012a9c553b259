"""`fleet.check_snapshots`: the call of a program, with processes of its own or on a cluster."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hostrouting import ConfigError, HostRoutingConfig, Route, fleet
from hostrouting.fleet.judge import judge
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import Prefix
from hostrouting.testing import h200, plain_vm
from tests.support.cli import say
from tests.support.fleets import ASKED, Inline, config_of, distinct_nodes, save
from tests.support.programs import completed
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[3]


def test_a_directory(tmp_path: Path) -> None:
    """Each node has its verdict, its findings and its repair, as in the document of a check."""
    save(tmp_path, {"gpu": h200().snapshot(), "vm": plain_vm().snapshot(), "broken": "{"})
    found = {node.name: node for node in fleet.check_snapshots([tmp_path], config_of(), executor=Inline())}
    gpu, vm, broken = found["gpu"], found["vm"], found["broken"]
    assert (gpu.verdict, vm.verdict, broken.verdict) == ("overlap", "ok", None)
    assert [finding["name"] for finding in gpu.findings] == ["overlap", "action", "repair-cost"]
    assert [it["destination"] for it in gpu.repair] == ["172.16.0.0/17", "172.16.128.0/17"]
    assert (vm.findings, vm.repair, broken.findings) == ([], [], [])
    document = gpu.to_mapping()
    assert (document.pop("node"), document.pop("snapshot")) == ("gpu", str(tmp_path / "gpu.json"))
    assert document == json.loads(judge(h200().snapshot().to_json().encode(), ASKED).answer)
    assert broken.to_mapping()["error"] == "InputError"
    assert [str(it).partition(":")[0] for it in found.values()] == list(found)


def test_the_configuration_is_the_whole_one(tmp_path: Path) -> None:
    """The routes to add have one of our routes that is only on the node, because `apply` would delete it."""
    node = h200()
    first, second = (Prefix.parse(it) for it in ("172.16.0.0/17", "172.16.128.0/17"))
    assert all(
        it.ok
        for it in node.change([RouteRequest("add", Route.to(first, dev="eth0", gateway="10.0.0.1", protocol=213))])
    )
    save(tmp_path / "nodes", {"gpu": node.snapshot()})
    [found] = fleet.check_snapshots([tmp_path / "nodes"], config_of(), executor=Inline())
    assert [route.destination for route in found.routes] == [first, second]
    (tmp_path / "config.json").write_text(json.dumps(config_of().to_mapping()))
    asked = ("check", "--snapshots", str(tmp_path / "nodes"), "--config", str(tmp_path / "config.json"), "--json")
    assert json.loads(say(*asked).out) == found.to_mapping()


def test_faults_come_at_once(tmp_path: Path) -> None:
    """A path without a snapshot, and a configuration with nothing to check, are refused by the call itself."""
    with pytest.raises(ConfigError, match=r"'.*nowhere' does not exist"):
        fleet.check_snapshots([tmp_path / "nowhere"], config_of())
    with pytest.raises(ConfigError, match=r"routeOverlap.expectedCidrs: no expected CIDR is given"):
        fleet.check_snapshots([tmp_path], HostRoutingConfig())
    with pytest.raises(TypeError, match="check_snapshots takes a HostRoutingConfig, not a str"):
        fleet.check_snapshots([tmp_path], "agent.json")  # type: ignore[arg-type]  # the mistake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Nodes of several kinds, and their configuration."""
    (tmp_path / "config.json").write_text(json.dumps(config_of().to_mapping()))
    nodes = {**distinct_nodes(150), "vm": plain_vm().snapshot().to_json(), "broken": "{"}
    return save(tmp_path / "nodes", nodes)


@pytest.mark.linux
def test_on_a_cluster(folder: Path) -> None:
    """On a Dask cluster, the results are the same."""
    # Not imported here: Dask changes how its process pickles errors, also in the tests that follow. On Python 3.10, a pickled
    # group of errors can then not be read again.
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("Dask is not installed")
    # Dask warns of a slow directory if it takes a second to create it, as on a busy machine. As an error, that would end its
    # workers as they start.
    strict = ["-W", "error", "-W", "ignore:Creating scratch directories"]
    words = ["-m", "tests.support.on_a_cluster", str(folder), str(folder.parent / "config.json")]
    done = completed([sys.executable, *strict, *words], cwd=ROOT)
    # On a busy machine, Dask also says that its workers end late.
    errors = [line for line in done.stderr.splitlines() if "still alive after" not in line]
    assert (done.returncode, errors) == (0, [])
    here = fleet.check_snapshots([folder], config_of(), executor=Inline())
    assert json.loads(done.stdout) == {it.name: it.answer or str(it.error) for it in here}


PROGRAM = """
import sys, time
from hostrouting import fleet
from hostrouting import HostRoutingConfig
if __name__ == "__main__":
    results = fleet.check_snapshots([sys.argv[1]], HostRoutingConfig.load(sys.argv[2]))
    next(results)
    print("begun", flush=True)
    time.sleep(300)
"""


@pytest.mark.linux
def test_workers_end_with_their_program(folder: Path, tmp_path: Path) -> None:
    """If the program that started them is killed, no process of it is left."""
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [sys.executable, *map(str, (tmp_path / "program.py", folder, folder.parent / "config.json"))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        session = program.pid
        assert len(in_session(session)) > 1
        program.send_signal(signal.SIGKILL)
        program.wait(60)
        wait_for("the workers to end", lambda: not in_session(session))


def in_session(session: int) -> list[str]:
    """The processes of this session that have not ended."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                state, _, _, its, *_ = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(its) == session and state != "Z":
                found.append(name)
    return found
