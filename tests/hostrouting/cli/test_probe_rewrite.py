"""What the commands say of the probe rewrite."""

import json
from pathlib import Path

import attrs
import pytest

from hostrouting.kernel.nftables import missing
from hostrouting.testing import FakeHost, h200
from tests.support.cli import say

PROBE, KNOWN = "fe80::1234:5678:9abc", "2603:1062:0:1:fe80:1234:5678:9abc"
TABLE = "nftables table ip6 hostrouting_slb"


@pytest.fixture
def probes(tmp_path: Path) -> str:
    """A configuration with the rewrite, and a CIDR that is expected."""
    path = tmp_path / "probes.json"
    rewrite = {"enabled": True, "interfaces": ["eth0"]}
    path.write_text(json.dumps({"probeRewrite": rewrite, "routeOverlap": {"expectedCidrs": ["10.1.0.0/16"]}}))
    return str(path)


@pytest.fixture
def host() -> FakeHost:
    """A host whose eth0 has IPv6."""
    host = FakeHost(kernel=h200())
    host.kernel.add_address("eth0", "2001:db8::5/64")
    return host


def test_plan_apply_status_and_remove(probes: str, host: FakeHost) -> None:
    """Plan says what apply will do, status that it is in force or what is missing, and remove removes it."""
    planned = say("plan", "--config", probes, host=host)
    assert planned.code == 1
    assert planned.lines[0].startswith(f"TO DO: add 1 route, create {TABLE}, ")
    assert f"  create {TABLE}    # it is missing" in planned.lines
    applied = say("apply", "--config", probes, host=host)
    assert applied.code == 0
    assert applied.lines[0].startswith(f"DONE: 1 route added, {TABLE} created, ")
    for words in (("plan", "--config", probes), ("apply", "--config", probes)):
        assert say(*words, host=host).lines[0].startswith("NOTHING TO DO")
    assert say("status", host=host).code == 0
    host.tables.flush()
    said = say("status", host=host)
    assert (said.code, said.lines[0].endswith(f": apply would create {TABLE}")) == (1, True)
    say("apply", "--config", probes, host=host)
    removed = say("remove", host=host)
    assert removed.code == 0
    assert f"  delete {TABLE}    # it is no longer wanted" in removed.lines
    assert str(host.tables) == ""


def test_what_has_no_effect(probes: str, host: FakeHost) -> None:
    """If nothing is forwarded, status says so, and the exit code is 1."""
    say("apply", "--config", probes, host=host)
    snapshot = host.kernel.snapshot
    host.kernel.snapshot = lambda **how: attrs.evolve(snapshot(**how), ipv6_forwarding=False)  # type: ignore[method-assign]
    said = say("status", host=FakeHost(kernel=host.kernel, files=host.files, tables=host.tables))
    assert said.code == 1
    assert any(line.startswith("PROBE-REWRITE: net.ipv6.conf.all.forwarding is 0") for line in said.lines)


def test_what_cannot_be_found_out(probes: str, host: FakeHost) -> None:
    """If nft may not be asked, status cannot decide, and says why; check judges the routes all the same."""
    say("apply", "--config", probes, host=host)
    host.tables.fault = missing()
    said = say("status", host=host)
    assert (said.code, any(line.startswith("NOT-KNOWN: rewrite-probe-source: ") for line in said.lines)) == (3, True)
    assert say("check", host=host).code == 0
