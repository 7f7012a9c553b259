"""examples/node_agent.py: a whole agent, on a fake host."""

import json
import runpy
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import phases
from hostrouting.testing import FakeFiles, FakeHost, h200
from tests.support.programs import EXAMPLES, example
from tests.support.recorder import StubTask
from tests.support.tasks import REPAIR, WANTED, document, manager_of
from tests.support.waiting import wait_for

pytestmark = pytest.mark.linux

KUBELET = "kubelet.service"
DROP_IN = f"/etc/systemd/system/{KUBELET}.d/50-node-ip.conf"


def configured(folder: Path, *destinations: str, **downloads: str) -> str:
    """The file with the configuration of an agent that downloads these into this folder."""
    settings = {
        "downloads": [{"path": str(folder / name), "url": url} for name, url in downloads.items()],
        "hostRouting": document(*destinations, gate={"units": [KUBELET]}),
    }
    (folder / "agent.json").write_text(json.dumps(settings))
    return str(folder / "agent.json")


def statuses(report: dict[str, Any]) -> dict[str, str]:
    """The status of each step, and of its undo, by its path."""
    label = report["task"].replace("bootstrap/", "")
    if report["action"] == "undo":
        label += " (undo)"
    ended = {label: report["status"]}
    for child in report["children"]:
        ended |= statuses(child)
    return ended


def test_a_node(tmp_path: Path) -> None:
    """Files are downloaded, the check finds no escape, and kubelet runs."""
    (tmp_path / "source").write_text("a program")
    url = (tmp_path / "source").as_uri()
    done = example("node_agent.py", configured(tmp_path, *REPAIR, kubelet=url, other=url))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kubelet").read_text() == (tmp_path / "other").read_text() == "a program"
    ended = statuses(json.loads(done.stdout))
    assert ended["configure-host-routing/check-route-overlap"] == "ok"
    assert ended["start-kubelet"] == "ok"
    assert ended["wait-until-it-runs"] == "ok"


def agent(host: FakeHost) -> Any:
    """The agent of the example, for this host."""
    example = runpy.run_path(str(EXAMPLES / "node_agent.py"))
    return example["agent"](example["Settings"](WANTED), host)


def run_and_fail(host: FakeHost) -> None:
    """Run the agent, and after it a task that fails: all that ran is undone."""
    fails = StubTask("join-cluster", errors=[OSError("refused")])
    bootstrap = phases.serial(agent(host), fails, name="node")
    report = phases.run(bootstrap, undo_on_failure=True)
    assert [step.name for step in report.failures] == ["join-cluster"]


def test_a_kubelet_that_runs() -> None:
    """The kubelet is not restarted. If that run fails later, what the first one did stays."""
    host = FakeHost(kernel=h200())
    assert phases.run(agent(host)).ok
    calls, files = list(manager_of(host).calls), dict(host.files.texts)
    assert calls[-1] == "start kubelet.service"
    assert phases.run(agent(host)).ok
    run_and_fail(host)
    assert manager_of(host).calls == calls
    assert host.files.texts == files


def test_a_kubelet_that_gets_another_address() -> None:
    """It is restarted with it; if a later task fails, it runs again with the one before."""
    former = '[Service]\nEnvironment="KUBELET_EXTRA_ARGS=--node-ip=10.9.9.9"\n'
    host = FakeHost(kernel=h200(), files=FakeFiles(texts={DROP_IN: former}))
    manager = manager_of(host)
    manager.states[KUBELET] = "active"
    run_and_fail(host)
    assert host.files.texts[DROP_IN] == former
    assert manager.states[KUBELET] == "active"
    assert manager.calls.count(f"start {KUBELET}") == 2
    new = FakeHost(kernel=h200())
    run_and_fail(new)
    assert new.files.texts == {}
    assert manager_of(new).states[KUBELET] == "inactive"


def test_a_dry_run(tmp_path: Path) -> None:
    """Each task says what it would do, and does not."""
    file = configured(tmp_path, *REPAIR, kubelet="https://a.example/kubelet")
    done = example("node_agent.py", file, "--plan")
    assert done.stderr == ""
    assert done.returncode == 0
    assert "would download https://a.example/kubelet" in done.stdout
    assert "would start kubelet.service with this drop-in" in done.stdout
    assert "--node-ip=10.0.0.4" in done.stdout
    assert "would wait until kubelet.service runs" in done.stdout
    assert "no plan" not in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["agent.json"]


def test_a_node_that_is_not_repaired(tmp_path: Path) -> None:
    """The check fails, kubelet is not started, and the downloads and the gate are gone."""
    (tmp_path / "source").write_text("a program")
    url = (tmp_path / "source").as_uri()
    done = example("node_agent.py", configured(tmp_path, kubelet=url))
    assert done.returncode == 1
    ended = statuses(json.loads(done.stdout))
    assert ended["bootstrap"] == "failed"
    assert ended["start-kubelet"] == "skipped"
    assert ended["configure-host-routing (undo)"] == "ok"
    name = f"download{tmp_path}/kubelet".replace("/", "-")
    assert ended[f"downloads/{name} (undo)"] == "ok"
    assert {path.name for path in tmp_path.iterdir()} == {"source", "agent.json"}


def send_forever(server: socket.socket) -> None:
    """Answer one request, until the other side goes away."""
    with suppress(OSError):
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            while True:
                connection.sendall(bytes(1 << 16))


def test_a_node_that_is_stopped(tmp_path: Path) -> None:
    """SIGTERM cancels the download, nothing of it is left, and the report is written."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=send_forever, args=(server,))
        sender.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        file = configured(tmp_path, *REPAIR, kubelet=url)
        words = [sys.executable, str(EXAMPLES / "node_agent.py"), file]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as agent:
            part = tmp_path / "kubelet.part"
            wait_for("the download", lambda: part.exists() and part.stat().st_size > 0)
            agent.send_signal(signal.SIGTERM)
            out, err = agent.communicate(timeout=60)
        sender.join()
    assert agent.returncode == 143, err
    report = json.loads(out)
    assert report["status"] == "cancelled"
    assert report["reason"] == "SIGTERM"
    assert report["signal"] == signal.SIGTERM
    assert {path.name for path in tmp_path.iterdir()} == {"agent.json"}
