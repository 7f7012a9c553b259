"""What the commands say of the probe rewrite."""

import json
from pathlib import Path

import pytest

from hostrouting.kernel.nftables import missing
from hostrouting.model.route import Route
from hostrouting.testing import FakeFiles, FakeHost, h200
from tests.support.cli import say

PROBE, KNOWN = "fe80::1234:5678:9abc", "2603:1062:0:1:fe80:1234:5678:9abc"
SUBJECT = f"probes from {PROBE} by eth0"


@pytest.fixture
def probes(tmp_path: Path) -> str:
    """A configuration with the rewrite, and a CIDR that is expected and escapes."""
    path = tmp_path / "probes.json"
    rewrite = {"enabled": True, "interfaces": ["eth0"]}
    path.write_text(json.dumps({"probeRewrite": rewrite, "routeOverlap": {"expectedCidrs": ["10.1.0.0/16"]}}))
    return str(path)


@pytest.fixture
def host() -> FakeHost:
    """A host that forwards."""
    settings = {"/proc/sys/net/ipv6/conf/all/forwarding": "1\n", "/proc/sys/net/ipv6/conf/eth0/accept_ra": "2\n"}
    return FakeHost(kernel=h200(), files=FakeFiles(settings))


def test_plan_apply_and_remove(probes: str, host: FakeHost) -> None:
    """Plan says what apply will do, apply what it did and the state after it, and remove removes it."""
    planned = say("plan", "--config", probes, host=host)
    assert planned.code == 1
    assert planned.lines[0].startswith("TO DO: create nftables table ip6 hostrouting_slb, add route ")
    assert "  create nftables table ip6 hostrouting_slb    # it is missing" in planned.lines
    applied = say("apply", "--config", probes, host=host)
    assert applied.code == 0
    assert applied.lines[0].startswith("DONE: nftables table ip6 hostrouting_slb created, route ")
    assert applied.lines[0].endswith(" added, 10 files written")
    assert f"IN FORCE: {SUBJECT}" in applied.lines
    assert say("plan", "--config", probes, host=host).lines[0].startswith("NOTHING TO DO")
    assert say("apply", "--config", probes, host=host).lines[0].startswith("NOTHING TO DO")
    removed = say("remove", host=host)
    assert removed.code == 0
    assert "  delete nftables table ip6 hostrouting_slb    # it is no longer wanted" in removed.lines
    assert str(host.tables) == ""


def test_what_stands_in_the_way(probes: str, host: FakeHost) -> None:
    """Plan says what apply would fail of, as apply does, with the same exit code; nothing is to be done then."""
    theirs = 'table ip6 hostrouting_slb {\n  comment "theirs"\n}\n'
    host.tables.load(theirs)
    host.kernel.ip_route("add", Route.to(f"{KNOWN}/128", dev="ib0", metric=1024, protocol=4))
    host.kernel.add_address("eth0", f"{KNOWN}/128")
    planned = say("plan", "--config", probes, host=host)
    assert (planned.code, planned.lines[0]) == (
        1,
        "CONFLICT: apply would fail, for the reasons below, and no gated unit starts",
    )
    assert "hostrouting apply" not in planned.out
    document = say("plan", "--config", probes, "--json", host=host).json
    assert (document["answer"], document["operations"]) == ("conflict", [])
    errors = [finding for finding in document["findings"] if finding["severity"] == "error"]
    assert [finding["name"] for finding in errors] == ["probe-rewrite"] * 3  # the address, the table and the route
    host.kernel.delete_address("eth0", f"{KNOWN}/128")
    applied = say("apply", "--config", probes, host=host)
    assert (applied.code, errors[1]["sentence"] in applied.out) == (1, True)
    assert host.tables.tables["hostrouting_slb"] == theirs


def test_status_and_check(probes: str, host: FakeHost) -> None:
    """Both tell that it is in force, then that it is not, or cannot work, with exit code 1."""
    host.kernel.add_address("eth0", "2001:db8::5/64")
    say("apply", "--config", probes, host=host)
    for words in (("status",), ("check",), ("status", "--config", probes), ("check", "--config", probes)):
        told = say(*words, host=host)
        assert (told.code, f"IN FORCE: {SUBJECT}" in told.lines) == (0, True), words
    host.files.texts["/proc/sys/net/ipv6/conf/all/forwarding"] = "0\n"
    for verb in ("status", "check"):
        told = say(verb, host=host)
        assert told.code == 1
        assert f"NOT WORKING: {SUBJECT}" in told.lines
        assert any(line.startswith("PROBE-REWRITE: net.ipv6.conf.all.forwarding is 0") for line in told.lines)
    host.tables.flush()
    assert say("status", host=host).lines[0] == (f"NOT IN FORCE: {SUBJECT}, for the reasons below")
    [standing] = say("check", "--json", host=host).json["standings"]
    assert (standing["on"], standing["inForce"]) == (True, False)


def test_a_check_of_cidrs_alone(probes: str, host: FakeHost) -> None:
    """If CIDRs are named, nothing else is asked about."""
    say("apply", "--config", probes, host=host)
    host.tables.flush()
    told = say("check", "10.1.0.0/16", host=host)
    assert (told.code, "IN FORCE" in told.out) == (0, False)


def test_without_expected_cidrs(host: FakeHost, tmp_path: Path) -> None:
    """If a configuration has only a rewrite, only that is checked."""
    path = tmp_path / "alone.json"
    path.write_text(json.dumps({"probeRewrite": {"enabled": True, "interfaces": ["eth0"]}}))
    missing = say("check", "--config", str(path), host=host)
    assert (missing.code, missing.lines[0]) == (1, f"NOT IN FORCE: {SUBJECT}")
    say("apply", "--config", str(path), host=host)
    assert say("check", host=host).lines[0] == f"IN FORCE: {SUBJECT}"
    document = say("check", "--json", host=host).json
    assert (document["verdict"], document["findings"], len(document["standings"])) == ("ok", [], 1)


def test_what_cannot_be_found_out(probes: str, host: FakeHost) -> None:
    """If nft may not be asked, check is undecided and says why."""
    say("apply", "--config", probes, host=host)
    host.tables.fault = missing()
    told = say("check", host=host)
    assert told.code == 3
    assert any(line.startswith("NOT-KNOWN: rewrite-probe-source: ") for line in told.lines)


def test_explain(probes: str, host: FakeHost) -> None:
    """A probe from outside is explained as routing sees it, and the rules that rewrite it are named."""
    packet = ("explain", "2001:db8::9", "--from", PROBE, "--iif", "eth0")
    before = say(*packet, host=host)
    assert f"Linux does not forward packets from {PROBE}" in before.out
    assert "probeRewrite" in before.out
    say("apply", "--config", probes, host=host)
    told = say(*packet, host=host)
    assert f"The source {PROBE} becomes {KNOWN} before routing (nftables table ip6 hostrouting_slb)." in told.lines
    host.tables.flush()
    assert "but this is not in force" in say(*packet, host=host).out
    assert say("explain", "fe80::9", "--from", PROBE, "--iif", "eth0", "--json", host=host).json["source"] == ""
    other = say("explain", "2001:db8::9", "--from", "2001:db8::1", "--iif", "eth0", "--json", host=host).json
    assert other["source"] == ""


def test_explain_without_a_device(probes: str, host: FakeHost) -> None:
    """Without the device that a probe arrives on, the answer names the rewrite and asks for the device."""
    say("apply", "--config", probes, host=host)
    told = f"A packet that arrives on eth0 from {PROBE} gets the source {KNOWN} before routing: add --iif eth0 to trace it."
    assert told in say("explain", "2001:db8::9", "--from", PROBE, host=host).lines
    assert say("explain", "2001:db8::9", "--from", "fe80::7", "--json", host=host).json["source"] == ""
    assert say("explain", "fe80::9", "--from", PROBE, "--json", host=host).json["source"] == ""
