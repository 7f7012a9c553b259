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
from hostrouting.testing import FakeHost, h200
from tests.support.programs import EXAMPLES, example
from tests.support.tasks import manager_of
from tests.support.waiting import wait_for

pytestmark = pytest.mark.linux

ROUTES = [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]


def configured(folder: Path, *routes: dict[str, str], **downloads: str) -> str:
    """The file with the configuration of an agent that downloads these into this folder."""
    document = {
        "downloads": {str(folder / name): url for name, url in downloads.items()},
        "hostRouting": {
            "staticRoutes": {"enabled": bool(routes), "routes": routes},
            "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
            "gate": {"units": ["kubelet.service"]},
        },
    }
    (folder / "agent.json").write_text(json.dumps(document))
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
    done = example("node_agent.py", configured(tmp_path, *ROUTES, kubelet=url, other=url))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kubelet").read_text() == (tmp_path / "other").read_text() == "a program"
    ended = statuses(json.loads(done.stdout))
    assert ended["configure-host-routing/check-route-overlap"] == "ok"
    assert (ended["start-kubelet"], ended["wait-until-it-runs"]) == ("ok", "ok")


def test_a_kubelet_that_runs() -> None:
    """A second run of the agent tells systemd nothing: kubelet is not restarted."""
    document = {
        "hostRouting": {
            "staticRoutes": {"enabled": True, "routes": ROUTES},
            "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]},
        }
    }
    host = FakeHost(kernel=h200())
    bootstrap = runpy.run_path(str(EXAMPLES / "node_agent.py"))["agent"](document, host)
    assert phases.run(bootstrap, observers=[]).ok
    calls = list(manager_of(host).calls)
    assert calls[-1] == "start kubelet.service"
    assert phases.run(bootstrap, observers=[]).ok
    assert manager_of(host).calls == calls


def test_a_node_that_is_not_repaired(tmp_path: Path) -> None:
    """The check fails, kubelet is not started, and the downloads and the gate are gone."""
    (tmp_path / "source").write_text("a program")
    url = (tmp_path / "source").as_uri()
    done = example("node_agent.py", configured(tmp_path, kubelet=url))
    assert done.returncode == 1
    ended = statuses(json.loads(done.stdout))
    assert (ended["bootstrap"], ended["start-kubelet"]) == ("failed", "skipped")
    assert ended["configure-host-routing (undo)"] == "ok"
    assert ended["downloads/download-kubelet (undo)"] == "ok"
    assert {path.name for path in tmp_path.iterdir()} == {"source", "agent.json"}


def test_a_later_run_that_fails(tmp_path: Path) -> None:
    """Its undo leaves what an earlier run has downloaded."""
    (tmp_path / "kubelet").write_text("a program")
    url = (tmp_path / "source").as_uri()
    done = example("node_agent.py", configured(tmp_path, kubelet=url))
    assert done.returncode == 1
    assert statuses(json.loads(done.stdout))["downloads/download-kubelet"] == "skipped"
    assert (tmp_path / "kubelet").read_text() == "a program"


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
    """SIGTERM cancels the download, and nothing is left of it; the report is written all the same."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=send_forever, args=(server,))
        sender.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        file = configured(tmp_path, *ROUTES, kubelet=url)
        words = [sys.executable, str(EXAMPLES / "node_agent.py"), file]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as agent:
            part = tmp_path / "kubelet.part"
            wait_for("the download", lambda: part.exists() and part.stat().st_size > 0)
            agent.send_signal(signal.SIGTERM)
            out, err = agent.communicate(timeout=60)
        sender.join()
    assert agent.returncode == 1, err
    report = json.loads(out)
    assert (report["status"], report["reason"]) == ("cancelled", "SIGTERM")
    assert {path.name for path in tmp_path.iterdir()} == {"agent.json"}
