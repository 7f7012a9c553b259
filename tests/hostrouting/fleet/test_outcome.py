"""From the documents of plan, apply and remove to the result that a tool such as Ansible reports."""

import json
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from hostrouting.errors import BackendError
from hostrouting.finding import Finding
from hostrouting.fleet import Outcome, Ran, outcome_of
from hostrouting.fleet.outcome import verdict_sentence
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, MemoryBackend, h200, plain_vm
from tests.support.cli import say

CIDR = "172.16.0.0/16"
HALVES = [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]
WARN: dict[str, Any] = {
    "staticRoutes": {"enabled": True, "routes": HALVES},
    "routeOverlap": {"expectedCidrs": [CIDR], "mode": "WARN"},
}
STRICT: dict[str, Any] = {**WARN, "routeOverlap": {"expectedCidrs": [CIDR], "mode": "STRICT"}}
LACKING: dict[str, Any] = {"staticRoutes": {"enabled": True, "routes": HALVES[:1]}}
"""Half of the repair."""


def ran(command: str, host: FakeHost, config: dict[str, Any] | None = None, *words: str) -> Ran:
    """Run a command as the module does on a node."""
    given = () if config is None else ("--config", "-")
    allowed = ("--allow-removal",) * (command in {"preflight", "plan", "apply"})
    waiting = ("--wait", "0") * (command in {"plan", "apply"})
    said = say(command, *given, *words, *waiting, *allowed, "--json", host=host, stdin=json.dumps(config).encode())
    return Ran(said.code, said.out, said.err)


def dry_run(host: FakeHost, config: dict[str, Any]) -> Outcome:
    """What a run would do."""
    return outcome_of({name: ran(name, host, config) for name in ("preflight", "plan")})


def run(host: FakeHost, config: dict[str, Any]) -> Outcome:
    """A run with its difference."""
    return outcome_of({"plan": ran("plan", host, config), "apply": ran("apply", host, config)})


HOSTS: dict[str, Callable[[], FakeHost]] = {
    "h200": lambda: FakeHost(kernel=h200()),
    "without a default route": lambda: FakeHost(kernel=MemoryBackend()),
    "configured": lambda: configured(WARN),
    "with another configuration": lambda: configured({**STRICT, "protocol": 214}),
    "with old routes": lambda: configured(
        {"staticRoutes": {"enabled": True, "routes": [{"destination": "9.0.0.0/8"}]}}
    ),
    "with another gateway": lambda: configured(
        {"staticRoutes": {"enabled": True, "routes": [{"destination": "172.16.0.0/17", "gateway": "10.0.0.9"}]}}
    ),
}
CONFIGS = {
    "warn": WARN,
    "strict": STRICT,
    "lacking": {**LACKING, "routeOverlap": WARN["routeOverlap"]},
    "lacking, strict": {**LACKING, "routeOverlap": STRICT["routeOverlap"]},
    "conflict": {"staticRoutes": {"enabled": True, "routes": [{"destination": CIDR}]}},
    "missing device": {"staticRoutes": {"enabled": True, "routes": [{"destination": "9.0.0.0/8", "dev": "eth9"}]}},
    "nothing": {"staticRoutes": {"enabled": False}},
    "the check alone": {"routeOverlap": WARN["routeOverlap"]},
    "the check alone, strict": {"routeOverlap": STRICT["routeOverlap"]},
}


def configured(config: dict[str, Any]) -> FakeHost:
    """An H200 node to which a configuration was applied."""
    host = FakeHost(kernel=h200())
    ran("apply", host, config)
    return host


# Every third pair in each run: each host and each configuration is in several.
PAIRS = [
    pytest.param(host, config, marks=[pytest.mark.nightly] if (row + column) % 3 else [])
    for row, host in enumerate(HOSTS)
    for column, config in enumerate(CONFIGS)
]


@pytest.mark.parametrize(("host", "config"), PAIRS)
def test_law_a_dry_run_predicts_the_run(host: str, config: str) -> None:
    """What a dry run says is what the run then does, and a second run changes nothing.

    A run that waits for something that never comes fails, and keeps a script that has succeeded before; the dry run
    shows what it would change if that came.
    """
    where = HOSTS[host]()
    foretold, done = dry_run(where, CONFIGS[config]), run(where, CONFIGS[config])
    waits = foretold.message.startswith("NOT READY")
    assert foretold.failed == done.failed
    if waits:
        assert foretold.changed >= done.changed
        assert foretold.warnings[0].startswith("NOT READY: apply would wait for what is missing")
        return
    assert (foretold.before == foretold.after) is (not foretold.changed)
    assert (foretold.before, foretold.after) == (done.before, done.after)
    assert (foretold.changed, foretold.verdict) == (done.changed, done.verdict)
    assert foretold.findings == done.findings
    assert not dry_run(where, CONFIGS[config]).changed
    assert not run(where, CONFIGS[config]).changed


def test_what_preflight_finds() -> None:
    """What keeps the real run from writing fails the dry run with its reason; what is not certain is a warning."""
    host = FakeHost(kernel=h200(), manager=FakeManager(running=False))
    [told] = dry_run(host, WARN).warnings
    assert told.startswith("systemd ")
    folder, why = "/etc/hostrouting", "Read-only file system"
    host.files.broken |= {folder: why, f"{folder}/host-routing-gate.sh": why}
    foretold, done = dry_run(host, WARN), run(host, WARN)
    assert (foretold.failed, done.failed) == (True, True)
    assert "; apply would fail, or gated units would not start: cannot write into /etc/hostrouting" in foretold.message


@pytest.mark.parametrize("dry", [True, False])
def test_a_run(*, dry: bool) -> None:
    """The message counts what was done and ends with the verdict; the texts have a line for each route and file."""
    host = FakeHost(kernel=h200())
    it = dry_run(host, WARN) if dry else run(host, WARN)
    told, verdict = ("TO DO", "the verdict afterwards would be") if dry else ("DONE", "the verdict is")
    assert it.message == f"{told}: routes: add 2; files: write 11; {verdict} OK: nothing escapes"
    assert (it.changed, it.failed, it.verdict, it.warnings) == (True, False, "ok", ())
    assert it.before == ""
    assert it.after.splitlines()[:2] == [
        "route 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting",
        "route 172.16.128.0/17 via 10.0.0.1 dev eth0 proto hostrouting",
    ]
    assert it.after.splitlines()[2] == "file /etc/hostrouting/check-route-overlap.sh"
    assert list(it.documents) == (["preflight", "plan"] if dry else ["plan", "apply"])


def test_what_is_different() -> None:
    """A route or file that is replaced has a line before and a line after; one that is kept has the same line twice."""
    before = {"staticRoutes": {"enabled": True, "routes": [HALVES[0], {"destination": "9.0.0.0/8"}]}}
    after = {
        "staticRoutes": {"enabled": True, "routes": [HALVES[0], {"destination": "9.0.0.0/8", "gateway": "10.0.0.9"}]}
    }
    it = run(configured(before), after)
    assert it.before.splitlines() == [
        "route 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting",
        "route 9.0.0.0/8 via 10.0.0.1 dev eth0 proto hostrouting",
        "file /etc/hostrouting/host-routing-gate.conf (different)",
        "file /etc/hostrouting/static-routes.sh (different)",
        "file /etc/iproute2/rt_protos.d/hostrouting.conf (different)",
    ]
    assert it.after.splitlines() == [
        "route 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting",
        "route 9.0.0.0/8 via 10.0.0.9 dev eth0 proto hostrouting",
        "file /etc/hostrouting/host-routing-gate.conf",
        "file /etc/hostrouting/static-routes.sh",
        "file /etc/iproute2/rt_protos.d/hostrouting.conf",
    ]


def test_without_a_plan() -> None:
    """A run without a requested difference has no texts before and after."""
    it = outcome_of({"apply": ran("apply", FakeHost(kernel=h200()), WARN)})
    assert (it.changed, it.before, it.after) == (True, "", "")


def test_an_overlap_that_is_left() -> None:
    """In WARN, what escapes and the repair are a warning; in STRICT, the run fails with the same."""
    told = "OVERLAP: expected CIDR 172.16.0.0/16 "
    for mode, failed in (("WARN", False), ("STRICT", True)):
        config = {**LACKING, "routeOverlap": {"expectedCidrs": [CIDR], "mode": mode}}
        host = FakeHost(kernel=h200())
        foretold, done = dry_run(host, config), run(host, config)
        assert (foretold.failed, done.failed) == (failed, failed)
        assert (foretold.verdict, done.verdict) == ("overlap", "overlap")
        assert told in foretold.message
        assert foretold.message.endswith("apply would fail, because the mode is STRICT") is failed
        assert [it["destination"] for it in done.repair] == ["172.16.128.0/17"]
        assert [finding["name"] for finding in done.findings] == ["overlap", "action", "repair-cost"]
        assert (told in "".join(done.warnings)) is (not failed)
        assert "172.16.128.0/17" in done.message
        assert ("what it has changed before it failed: routes: add 1; files: write 11" in done.message) is failed


def test_a_conflict() -> None:
    """A route that cannot be added fails the dry run, too, and the message has the way out."""
    host, config = FakeHost(kernel=h200()), CONFIGS["conflict"]
    foretold, done = dry_run(host, config), run(host, config)
    assert foretold.message.startswith("CONFLICT: apply would fail: 172.16.0.0/16 cannot be installed: ")
    for it in (foretold, done):
        assert it.failed
        assert "configure 172.16.0.0/17 and 172.16.128.0/17" in it.message


def test_what_is_missing() -> None:
    """A device that is missing is named; a run that waits for it without success fails."""
    host, config = FakeHost(kernel=h200()), CONFIGS["missing device"]
    assert "eth9" in dry_run(host, config).message
    done = run(host, config)
    assert done.failed
    assert "eth9" in done.message
    assert (
        "a default route, which the check needs"
        in dry_run(FakeHost(kernel=MemoryBackend()), {"routeOverlap": {"expectedCidrs": [CIDR]}}).message
    )


def test_other_operations() -> None:
    """A change that is neither a route nor a file is counted, and has its line."""
    files = FakeFiles({"/proc/sys/net/ipv6/conf/all/forwarding": "1", "/proc/sys/net/ipv6/conf/eth0/accept_ra": "2"})
    host = FakeHost(kernel=plain_vm(), files=files)
    config = {"probeRewrite": {"enabled": True, "interfaces": ["eth0"], "ensureRoute": False}}
    foretold, done = dry_run(host, config), run(host, config)
    assert "others: create 1" in foretold.message
    assert "nftables table ip6 hostrouting_slb" in foretold.after
    assert (foretold.before, foretold.after) == (done.before, done.after)
    removed = outcome_of({"remove": ran("remove", host)})
    assert "nftables table ip6 hostrouting_slb" in removed.before
    assert removed.after == ""


def test_a_removal() -> None:
    """A removal lists what it deletes, first as a dry run, and then changes nothing more."""
    host = configured(WARN)
    foretold = outcome_of({"remove": ran("remove", host, None, "--dry-run")})
    done = outcome_of({"remove": ran("remove", host)})
    assert foretold.message == "TO DO: routes: delete 2; files: remove 11"
    assert done.message == "DONE: routes: delete 2; files: remove 11"
    assert foretold.changed
    assert done.changed
    assert (foretold.before, foretold.after, foretold.steps) == (done.before, done.after, done.steps)
    assert done.before.count("route ") == 2
    assert done.after == ""
    again = outcome_of({"remove": ran("remove", host)})
    assert again.message == "NOTHING TO DO: hostrouting has nothing installed on this host"
    assert not again.changed


def test_a_route_that_stays() -> None:
    """A removal warns about a configured route that another program has added, with the command that deletes it."""
    kernel = plain_vm()
    kernel.ip_route("add", Route.to("9.0.0.0/8", dev="eth0", gateway="10.0.0.1", protocol=3))
    config = {"staticRoutes": {"enabled": True, "routes": [{"destination": "9.0.0.0/8"}]}}
    it = outcome_of({"remove": ran("remove", FakeHost(kernel=kernel), config)})
    assert not it.failed
    [told] = it.warnings
    assert "ip route del 9.0.0.0/8" in told


def test_a_removal_that_fails() -> None:
    """If something cannot be removed, the outcome has the reason."""
    host = configured(WARN)
    host.files.broken["/etc/hostrouting/static-routes.sh"] = "the disk is broken"
    it = outcome_of({"remove": ran("remove", host)})
    assert it.failed
    assert "the disk is broken" in it.message
    assert it.message.endswith("to see what is left on the node: hostrouting status")


def test_what_the_next_boot_will_lose() -> None:
    """A route that does not last, an open gate, and a kubelet that no gate holds back are warnings."""
    kernel = h200()
    kernel.ip_route("prepend", Route.to(CIDR, dev="eth0", gateway="10.0.0.1", protocol=3))
    host = FakeHost(kernel=kernel, manager=FakeManager(properties={"kubelet.service": {"ActiveState": "active"}}))
    host.files.texts["/etc/systemd/system/systemd-nspawn@.service.d/90.conf"] = "[Service]\nExecStartPre=\n"
    config = {"staticRoutes": {"enabled": True, "routes": [{"destination": CIDR}]}}
    for it in (dry_run(host, config), run(host, config)):
        assert any("does not last" in text for text in it.warnings)
        assert any(text.startswith("kubelet.service runs here and is not gated") for text in it.warnings)
    assert any("90.conf" in text for text in run(host, config).warnings)


def test_results_of_checks() -> None:
    """The files in which a check writes its result are neither counted nor listed: each run writes them."""
    host = FakeHost(kernel=plain_vm(), files=FakeFiles({"/run/aks-flex-node/route-overlap.ok": ""}))
    assert json.loads(ran("plan", host, {"staticRoutes": {}}).output)["changes"]
    for it in (dry_run(host, {"staticRoutes": {}}), run(host, {"staticRoutes": {}})):
        assert (it.changed, it.before, it.after) == (False, "", "")
        assert it.message == "NOTHING TO DO: the host already matches the configuration"


OPERATIONS = {
    "create": ("", "a table\n"),
    "add": ("", "a table\n"),
    "replace": ("a table (different)\n", "a table\n"),
    "start": ("a table (not started)\n", "a table\n"),
    "delete": ("a table\n", ""),
}


@pytest.mark.parametrize("verb", OPERATIONS)
def test_an_operation(verb: str) -> None:
    """Each kind of operation has its line before and its line after; what keeps machines from starting is a warning."""
    plan = json.loads(ran("plan", configured(WARN), WARN).output)
    plan["operations"] = [{"verb": verb, "object": "a table", "reason": "why"}]
    plan["findings"] = [Finding("gate-shut", "error", "no machine starts").to_mapping()]
    plan["steps"] = []
    it = outcome_of({"plan": Ran(1, json.dumps({**plan, "changes": True}))})
    assert (it.before, it.after) == OPERATIONS[verb]
    assert it.message.startswith(f"TO DO: others: {verb} 1; ")
    assert it.warnings == ("no machine starts",)


NO_NETLINK = BackendError("there is no netlink here", kind="unavailable")
FAULTS: dict[str, tuple[Callable[[], Ran], str]] = {
    "an error": (
        lambda: ran("plan", FakeHost(backend=mock.Mock(side_effect=NO_NETLINK)), WARN),
        "there is no netlink here",
    ),
    "a wrong configuration": (lambda: ran("plan", FakeHost(), {"protocol": 2}), "standard input: protocol: 2 "),
    "an old Python": (
        lambda: Ran(3, "", "hostrouting: Python 3.10 or newer is needed, and this is Python 3.8 (/usr/bin/python3)\n"),
        "did not print its document on the node; it ended with exit code 3; its message: hostrouting: Python 3.10 or newer",
    ),
    "a signal": (lambda: Ran(-9), "it was ended by signal 9, without a message"),
    "another program": (
        lambda: Ran(0, "[1]"),
        "hostrouting plan did not print its document on the node; it ended with exit code 0, without a message",
    ),
    "another version": (
        lambda: Ran(0, '{"schema": "hostrouting/plan/1"}'),
        "hostrouting plan printed hostrouting/plan/1 on the node, not hostrouting/plan/2: ",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_answer(fault: str) -> None:
    """If a command has no document, the run fails with what it printed, whole."""
    make, told = FAULTS[fault]
    it = outcome_of({"plan": make()})
    assert (it.failed, it.changed, it.documents) == (True, False, {})
    assert told in it.message


def test_an_answer_to_the_plan_only() -> None:
    """If apply prints no document, the run fails, and the outcome has the plan's document."""
    it = outcome_of({"plan": ran("plan", FakeHost(kernel=h200()), WARN), "apply": Ran(1, "", "Killed")})
    assert it.failed
    assert list(it.documents) == ["plan"]
    assert (
        "hostrouting apply did not print its document on the node; it ended with exit code 1; its message: Killed"
        in it.message
    )


def test_a_long_traceback() -> None:
    """Of many lines on standard error, the last are shown: a traceback ends with the error."""
    assert Ran(1, "", "\n".join(map(str, range(100)))).ending.endswith("98\n99")
    assert "\n79\n" not in Ran(1, "", "\n".join(map(str, range(100)))).ending


def checked(kernel: MemoryBackend, *words: str) -> str:
    """The sentence about a check."""
    return verdict_sentence(say("check", *words, "--json", kernel=kernel).json)


def test_verdicts() -> None:
    """Each verdict is a sentence that begins with it, and says what to do."""
    assert checked(plain_vm(), CIDR) == "OK: nothing escapes"
    assert checked(MemoryBackend(), CIDR) == (
        "NO-DEFAULT-ROUTE: there is no default route, so no device is expected; check DHCP and the uplink, or name the"
        " device in routeOverlap.expectedDevs"
    )
    marked = plain_vm()
    marked.add_link("eth1")
    marked.add_rule(Rule(family=4, priority=100, fwmark=0x10, fwmask=0x10, table=100))
    marked.change([RouteRequest("add", Route.to("0.0.0.0/0", dev="eth1", table=100))])
    assert checked(marked, CIDR).startswith("UNDECIDED: ")
    assert "0x10" in checked(marked, CIDR)


def test_many_findings() -> None:
    """The message has the first findings and the number of the others."""
    kernel = plain_vm()
    kernel.add_link("eth1")
    for number in range(6):
        kernel.ip_route("add", Route.to(f"172.16.{2 * number}.0/24", dev="eth1"))
    told = checked(kernel, CIDR)
    assert told.count("expected CIDR") == 3
    assert "; and 3 more findings; ACTION: add to staticRoutes.routes: [" in told
