"""`guard` as a process on a real kernel: what another program undoes comes back, and its end changes nothing."""

import itertools
import json
import signal
from collections.abc import Iterator

import pytest

from hostrouting import HostRoutingConfig
from tests.support.machine import H200, Machine, private_machine
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

CONFIG = HostRoutingConfig(
    {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]},
    {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
)
STATE, MARKERS = "/run/hostrouting", "/run/aks-flex-node"


@pytest.fixture
def machine() -> Iterator[Machine]:
    """An H200 node on which the repair is installed."""
    with private_machine() as machine:
        machine.batch(H200)
        machine.shell(f"mkdir -p /etc/node && cat > /etc/node/agent.json <<'END'\n{CONFIG.to_json()}\nEND")
        done = machine.hostrouting("apply", "--config", "/etc/node/agent.json", "--wait", "0")
        assert done.returncode == 0, done.stderr
        yield machine


def state(machine: Machine) -> dict[str, object]:
    """What the guard has written; empty before its first look."""
    text = machine.shell(f"cat {STATE}/guard.json 2>/dev/null || echo '{{}}'")
    found: dict[str, object] = json.loads(text)
    return found


def test_it_stays_right(machine: Machine) -> None:
    """Deleted routes, routes that Linux dropped without an event, and a late overlap; then the end."""
    with machine.guarding() as guard:
        wait_for("the first look", lambda: state(machine).get("looks"))
        machine.batch(["route del 172.16.0.0/17"])
        wait_for("the deleted route", lambda: "172.16.0.0/17 via" in machine.ip("route").stdout)
        machine.batch(["link set eth0 down", "link set eth0 up", "route add default via 10.0.0.1 dev eth0 proto dhcp"])
        wait_for("both routes", lambda: machine.ip("route").stdout.count("/17 via") == 2)
        # Before the default route was back, a look may have found an overlap; the routes come before its end is written.
        wait_for("the end of that overlap", lambda: state(machine).get("verdict") == "ok")
        machine.batch(["route add 172.16.9.0/24 dev ib3"])
        wait_for("the overlap", lambda: state(machine).get("verdict") == "overlap")
        assert "172.16.9.0/24" in machine.shell(f"cat {MARKERS}/route-overlap.detected")
        machine.batch(["route del 172.16.9.0/24"])
        wait_for("the end of the overlap", lambda: state(machine).get("verdict") == "ok")
        machine.shell(f"test -e {MARKERS}/route-overlap.ok && test ! -e {MARKERS}/route-overlap.detected")
        figures = machine.shell(f"cat {STATE}/hostrouting.prom")
        guard.send_signal(signal.SIGHUP)
        guard.send_signal(signal.SIGTERM)
        said = guard.communicate(timeout=60)[1]
    assert guard.returncode == 128 + signal.SIGTERM
    assert "repaired 172.16.0.0/17: there was no route" in said
    assert "hostrouting_routes_present 2\n" in figures
    assert machine.ip("route").stdout.count("/17 via") == 2


def test_its_file_is_read_again(machine: Machine) -> None:
    """With --config, SIGHUP makes it use the file as it is now; a file that cannot be read changes nothing."""
    path = "/etc/node/agent.json"

    def write(text: str) -> None:
        machine.shell(f"cat > {path} <<'END'\n{text}\nEND")

    with machine.guarding("--config", path) as guard:
        wait_for("the first look", lambda: state(machine).get("looks"))
        write("{")
        guard.send_signal(signal.SIGHUP)
        wait_for(
            "why it is not used", lambda: "the configuration stays as it was" in str(state(machine).get("failure"))
        )
        routes = [{"destination": it} for it in ("172.16.0.0/17", "172.16.128.0/17", "10.9.0.0/16")]
        write(json.dumps({"staticRoutes": {"enabled": True, "routes": routes}}))
        guard.send_signal(signal.SIGHUP)
        wait_for("the new route", lambda: "10.9.0.0/16 via" in machine.ip("route").stdout)
        guard.terminate()
        said = guard.communicate(timeout=60)[1]
    assert "the configuration stays as it was: /etc/node/agent.json: " in said
    assert machine.ip("route").stdout.count("/17 via") == 2


def test_its_figures_are_well_formed(machine: Machine) -> None:
    """Each figure has one HELP and one TYPE before it, and a number after it."""
    with machine.guarding():
        wait_for("the first look", lambda: state(machine).get("looks"))
    lines = machine.shell(f"cat {STATE}/hostrouting.prom").splitlines()
    known: set[str] = set()
    for before, it in itertools.pairwise(lines):
        if it.startswith("# TYPE "):
            name = it.split()[2]
            assert before.startswith(f"# HELP {name} ")
            assert name not in known
            known.add(name)
        elif not it.startswith("#"):
            assert it.split("{")[0].split()[0] in known
            float(it.split()[-1])


def test_without_root(machine: Machine) -> None:
    """The guard requires root, and says so."""
    done = machine.hostrouting("guard", before=("unshare", "--user", "--net"))
    assert done.returncode == 3
    assert "this process may not change routes or rules; run it as root" in done.stderr + done.stdout
