"""examples/node_agent.py: a whole agent, on a fake host."""

import json
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import phases
from examples.node_agent import DROP_IN, File, Settings, agent
from hostrouting import RouteOverlapError
from hostrouting.testing import FakeFiles, FakeHost, h200
from tests.support.programs import EXAMPLES, example
from tests.support.recorder import StubTask
from tests.support.tasks import CIDR, REPAIR, WANTED, config, document, manager_of
from tests.support.waiting import wait_for

pytestmark = pytest.mark.linux

KUBELET = "kubelet.service"


def configured(folder: Path, **downloads: str) -> str:
    """The file with the configuration of an agent that downloads these into this folder."""
    settings = {
        "downloads": [{"path": str(folder / name), "url": url} for name, url in downloads.items()],
        "hostRouting": document(*REPAIR, gate={"units": [KUBELET]}),
    }
    (folder / "agent.json").write_text(json.dumps(settings))
    return str(folder / "agent.json")


def test_a_node(tmp_path: Path) -> None:
    """The dry run says what each task would do; then files are downloaded, and kubelet runs."""
    (tmp_path / "source").write_text("a program")
    url = (tmp_path / "source").as_uri()
    file = configured(tmp_path, kubelet=url, other=url)
    plan = example("node_agent.py", file, "--plan")
    assert (plan.returncode, plan.stderr) == (0, "")
    assert f"would download {url}" in plan.stdout
    assert "would start kubelet.service with this drop-in" in plan.stdout
    assert "--node-ip=10.0.0.4" in plan.stdout
    assert "would wait until kubelet.service runs" in plan.stdout
    assert "no plan" not in plan.stdout
    assert not (tmp_path / "kubelet").exists()

    done = example("node_agent.py", file)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kubelet").read_text() == (tmp_path / "other").read_text() == "a program"
    steps = json.loads(done.stdout)["children"]
    assert [(step["task"], step["status"]) for step in steps[1:]] == [
        ("bootstrap/configure-host-routing", "ok"),
        ("bootstrap/start-kubelet", "ok"),
        ("bootstrap/wait-until-it-runs", "ok"),
    ]


def test_a_node_that_is_not_repaired(tmp_path: Path) -> None:
    """The check fails, kubelet is not started, and the downloads and the gate are gone."""
    (tmp_path / "source").write_text("a program")
    download = File(str(tmp_path / "kubelet"), (tmp_path / "source").as_uri())
    host = FakeHost(kernel=h200())
    bootstrap = agent(Settings(config(cidrs=(CIDR,)), (download,)), host)
    report = phases.run(bootstrap, undo_on_failure=True)
    assert isinstance(report.failures[0].error, RouteOverlapError)
    assert report.find("start-kubelet", action="do").status == "skipped"
    assert host.files.texts == {}
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def run_and_fail(host: FakeHost) -> None:
    """Run the agent, and after it a task that fails: all that ran is undone."""
    fails = StubTask("join-cluster", errors=[OSError("refused")])
    bootstrap = phases.serial(agent(Settings(WANTED), host), fails, name="node")
    report = phases.run(bootstrap, undo_on_failure=True)
    assert [step.name for step in report.failures] == ["join-cluster"]


def test_a_kubelet_that_runs() -> None:
    """The kubelet is not restarted. If that run fails later, what the first one did stays."""
    host = FakeHost(kernel=h200())
    assert phases.run(agent(Settings(WANTED), host)).ok
    calls, files = list(manager_of(host).calls), dict(host.files.texts)
    assert calls[-1] == "start kubelet.service"
    assert phases.run(agent(Settings(WANTED), host)).ok
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
        file = configured(tmp_path, kubelet=url)
        words = [sys.executable, str(EXAMPLES / "node_agent.py"), file]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as program:
            part = tmp_path / "kubelet.part"
            wait_for("the download", lambda: part.exists() and part.stat().st_size > 0)
            program.send_signal(signal.SIGTERM)
            out, err = program.communicate(timeout=60)
        sender.join()
    assert program.returncode == 143, err
    report = json.loads(out)
    assert (report["status"], report["reason"]) == ("cancelled", "SIGTERM")
    assert {path.name for path in tmp_path.iterdir()} == {"agent.json"}
