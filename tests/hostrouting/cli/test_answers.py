"""What the commands say of one host: `check` agrees with `explain` and with the check of a snapshot,
`status` with what `apply` has done, and each with what is to be typed next.
"""

import json
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from hostrouting.check.check import check_snapshot
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.host.layout import HostLayout
from hostrouting.kernel import Answer
from hostrouting.model.prefix import IP, Prefix, ip_at, width_of
from hostrouting.model.route import OURS, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import (
    FakeFiles,
    FakeHost,
    FakeKernel,
    cni_node,
    ecmp_node,
    h200,
    plain_vm,
    vpn_node,
)
from tests.support.cli import Said, say
from tests.support.nodes import block_of, nodes
from tests.support.sections import expect
from tests.support.tasks import CIDR, LAYOUT, lose_routes
from tests.support.topologies import IB0, refusing, rule, vm_with


def apply(host: FakeHost, settings: dict[str, Any], *options: str) -> Said:
    """Apply this configuration."""
    stdin = json.dumps(settings).encode()
    return say("apply", "--config", "-", *options, host=host, stdin=stdin)


# A host and its snapshot, `check` and `explain`.

HOSTS = {
    "h200": h200,
    "vpn": vpn_node,
    "cni": cni_node,
    "ecmp": ecmp_node,
    "bare": FakeKernel,
    "refusing": refusing,
}


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize(
    "words", ["check 172.16.0.0/12 10.0.0.0/8", "repair 172.16.0.0/12", "explain 172.16.5.9"]
)
def test_a_snapshot_gives_the_same_answer(name: str, words: str) -> None:
    """What is saved on one host is judged on another as on the host itself, whatever is installed
    there.
    """
    host = FakeHost(kernel=HOSTS[name]())
    elsewhere = FakeHost(files=FakeFiles({HostLayout.config_path: "{"}))
    saved = say("snapshot", host=host)
    assert say("snapshot", "--json", host=host).json == json.loads(saved.out)
    for form in ([], ["--json"]):
        here = say(*words.split(), *form, host=host)
        there = say(
            *words.split(), *form, "--snapshot", "-", host=elsewhere, stdin=saved.out.encode()
        )
        same = here.out if form else here.out.replace("as root", "on that host as root")
        # Nobody knows what is installed on the host of a snapshot.
        assert (there.code, there.out.replace(", unless hostrouting is installed there", "")) == (
            here.code,
            same,
        )


def test_a_plan_of_what_is_installed() -> None:
    """Without --config, `plan` is that of the installed file, and its commands name it."""
    host = FakeHost(kernel=h200())
    apply(host, {"staticRoutes": {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}]}})
    assert say("plan", host=host).code == 0

    lose_routes(host)
    page = say("plan", host=host)
    assert page.code == 1
    assert page.lines[0].endswith(f"hostrouting apply --config {LAYOUT.config_path}")
    assert "+ 172.16.0.0/17 via 10.0.0.1 dev eth0" in page.out


@pytest.mark.parametrize("options", [(), ("--snapshot", "-")], ids=["here", "snapshot"])
def test_a_plan_of_nothing(options: tuple[str, ...]) -> None:
    """Where nothing is installed, and for another host, the file has to be named."""
    saved = h200().snapshot().to_json().encode()
    page = say("plan", *options, host=FakeHost(kernel=h200()), stdin=saved)
    assert page.code == 2
    assert (
        "--config: no configuration is given, and none is installed here; name a file" in page.err
    )


def test_a_plan_for_another_host(tmp_path: Path) -> None:
    """Each command of the plan for a snapshot is typed on the host of the snapshot."""
    kernel = h200()
    kernel.ip_route("add", Route.to("172.16.0.0/17", dev="ib3", protocol=4))
    file = tmp_path / "config.json"
    file.write_text(
        '{"staticRoutes": {"enabled": true, "routes": [{"destination": "172.16.0.0/17"}]}}'
    )
    saved = kernel.snapshot().to_json().encode()
    said = say("plan", "--config", str(file), "--snapshot", "-", stdin=saved)
    deletion = "ip route del 172.16.0.0/17 dev ib3 table main proto 4"
    assert f", on that host as root: {deletion}" in said.out


@given(node=nodes(), place=st.integers(0, 1 << 16), has_lost_a_rule=st.booleans())
def test_explain_agrees_with_check(
    node: tuple[int, Snapshot], place: int, *, has_lost_a_rule: bool
) -> None:
    """Where a device is expected, it begins with the verdict of a check of the address alone."""
    family, block = node[0], block_of(node[0])
    snapshot = node[1]
    if has_lost_a_rule:  # that for table local
        snapshot = snapshot._replace(rules=snapshot.rules[1:])
    address = str(ip_at(family, block.first + place % (block.last - block.first + 1)))
    config = HostRoutingConfig(route_overlap=expect(address + f"/{width_of(family)}"))
    report = check_snapshot(snapshot, config)
    assume(report.families[0].expected_devs)
    said = say("explain", address, "--snapshot", "-", stdin=snapshot.to_json().encode())
    word = said.lines[0].partition(":")[0].lower()
    assert (word if word in {"ok", "undecided"} else "overlap") == report.verdict


@pytest.mark.parametrize("source", ["installed", "given", "given, of a snapshot"])
def test_explain_names_devices_as_check_does(tmp_path: Path, source: str) -> None:
    """Of a doubtful default route, both print the same commands: with the CIDRs or the file that
    are known, and with the consent that `apply` would ask for.
    """
    host = FakeHost(kernel=vpn_node())
    apply(host, {"routeOverlap": {"expectedCidrs": [CIDR], "mode": "STRICT"}})
    file = tmp_path / "a file.json"
    file.write_text(json.dumps({"routeOverlap": {"expectedCidrs": [CIDR], "mode": "WARN"}}))
    options = [] if source == "installed" else ["--config", str(file)]
    if source == "given, of a snapshot":
        saved = tmp_path / "snapshot.json"
        saved.write_text(say("snapshot", host=host).out)
        options += ["--snapshot", str(saved)]
    commands = re.compile("hostrouting repair [^|]*[|][^;\n]*")
    checked = commands.findall(say("check", *options, host=host).out)
    assert checked
    assert commands.findall(say("explain", "172.16.5.9", *options, host=host).out) == checked


@pytest.mark.parametrize(
    ("priority", "words"),
    [(0, "explain 10.0.0.4"), (32766, "explain 10.96.0.1"), (32766, "repair 10.96.0.0/12")],
)
def test_a_missing_rule(priority: int, words: str) -> None:
    """What is missing is the rule, and not a default route: the remedy is the command that adds it."""
    snapshot = plain_vm().snapshot()
    snapshot = snapshot._replace(
        rules=tuple(rule for rule in snapshot.rules if rule.priority != priority)
    )
    said = say(*words.split(), "--snapshot", "-", stdin=snapshot.to_json().encode())
    assert f"on that host as root: ip rule add pref {priority} lookup " in said.out + said.err
    assert not re.search("is no default route|add a default route|^OK", said.out + said.err)


def test_explain_is_about_one_address() -> None:
    """What else there is to tell about the host, `check` says."""
    kernel = plain_vm()
    kernel.add_link("eth1")
    kernel.add_address("eth1", "10.1.0.4/24")
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", metric=200))
    sentence = "Linux prefers the default route of eth0 to that of eth1"
    assert sentence in say("check", "10.96.0.0/12", kernel=kernel).out
    assert sentence not in say("explain", "10.96.0.1", kernel=kernel).out


# What is typed, beside what is installed.


def test_typed_cidrs_are_checked_by_what_is_installed() -> None:
    """CIDRs that are typed replace those of the installed configuration; what it says about devices
    holds for them, too.
    """
    host = FakeHost(kernel=h200())
    check = {
        "expectedCidrs": [CIDR],
        "expectedDevs": ["ib0"],
        "allowedDevs": ["ib*"],
        "mode": "WARN",
    }
    apply(host, {"routeOverlap": check})
    assert say("check", CIDR, "--json", host=host).json == say("check", "--json", host=host).json
    assert say("check", CIDR, "--json", host=host).json["expectedDevs"] == {"ipv4": ["ib0"]}
    assert say("explain", "172.16.5.9", "--json", host=host).json["expectedDevs"] == ["ib0"]


UNUSABLE = {
    "not JSON": ("{", "/etc/hostrouting/config.json is not JSON: "),
    "a fault": (
        '{"routeOverlap": {"mode": 1}}',
        "/etc/hostrouting/config.json: routeOverlap.mode: 1 is not one of WARN, STRICT",
    ),
    "two faults": (
        '{"routeOverlap": {"mode": 1, "modes": 2}}',
        "/etc/hostrouting/config.json has 2 faults: routeOverlap.mode: 1 is not one of WARN, STRICT; ",
    ),
    "absent": (None, "/etc/hostrouting/config.json is missing, although "),
    "a folder": ("in it", "cannot read /etc/hostrouting/config.json: it is a directory"),
}


def with_unusable_config(name: str, kernel: FakeKernel) -> FakeHost:
    """A host on which something is installed, and config.json has become unusable in this way."""
    host = FakeHost(kernel=kernel)
    check = {"routeOverlap": {"expectedCidrs": ["10.0.0.0/8"]}}
    apply(host, check)
    text, _ = UNUSABLE[name]
    del host.files.texts[HostLayout.config_path]
    if name == "a folder":
        host.files.texts[f"{HostLayout.config_path}/inside"] = ""
    elif text is not None:
        host.files.texts[HostLayout.config_path] = text
    return host


class TestTypedCidrs:
    """Typed CIDRs are checked where config.json is unusable; a warning names the file and the
    fault.
    """

    @staticmethod
    def sentence(name: str) -> str:
        """How the warning begins."""
        return f"the installed configuration was not used: {UNUSABLE[name][1]}"

    @pytest.mark.parametrize("name", UNUSABLE)
    def test_in_the_document(self, name: str) -> None:
        """It is a finding beside the verdict."""
        said = say("check", CIDR, "--json", host=with_unusable_config(name, h200()))
        assert (said.code, said.err, said.json["verdict"]) == (1, "", "overlap")
        [warning] = [finding for finding in said.json["findings"] if finding["name"] == "file"]
        assert warning["sentence"].startswith(self.sentence(name))
        assert (warning["severity"], warning["target"]) == ("warning", HostLayout.config_path)

    @pytest.mark.parametrize("name", UNUSABLE)
    def test_on_the_page(self, name: str) -> None:
        """The remedy is to correct the file, or to write it anew, in one pipeline."""
        host = with_unusable_config(name, h200())
        page = say("check", CIDR, host=host)
        assert page.code == 1
        [line] = [line for line in page.lines if line.startswith(f"FILE: {self.sentence(name)}")]
        remedy = page.lines[page.lines.index(line) + 1]
        is_there = host.files.look(HostLayout.config_path) is not None
        assert remedy.startswith(f"  correct {HostLayout.config_path}") is is_there
        repair = f"hostrouting repair {CIDR}"
        anew = f"' | {repair} --config - | hostrouting apply --config - --allow-removal"
        assert page.out.count(anew) == 1

    @pytest.mark.parametrize("name", UNUSABLE)
    def test_in_an_explanation(self, name: str) -> None:
        """The verdict is on the page, and the warning beside it."""
        said = say("explain", "172.16.5.9", host=with_unusable_config(name, h200()))
        assert said.lines[0].startswith("OVERLAP: ")
        assert self.sentence(name) in said.err

    @pytest.mark.parametrize("name", UNUSABLE)
    def test_in_the_exit_code(self, name: str) -> None:
        """It has one of its own only where that is asked for."""
        host = with_unusable_config(name, plain_vm())
        assert say("check", CIDR, host=host).code == 0
        assert say("check", CIDR, "--fail-on", "warning", host=host).code == 1


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_needs_the_configuration(name: str) -> None:
    """A check without typed CIDRs is refused, and a repair, which would drop what is installed."""
    host = with_unusable_config(name, h200())
    for words in (["check"], ["repair", CIDR]):
        said = say(*words, host=host)
        assert (said.code != 0, said.out, HostLayout.config_path in said.err) == (True, "", True)


def test_an_explanation_for_connections() -> None:
    """Where only packets with the host's address escape, the verdict is theirs, as in a check."""
    by_rule = Route.to("0.0.0.0/0", dev="ib0", table=100)
    saved = vm_with(by_rule, rules=(rule("10.0.0.4/32"),), links=(IB0,)).to_json().encode()
    explained = say("explain", "172.16.5.9", "--snapshot", "-", stdin=saved)
    escape = "for connections from 10.0.0.4, leaves through ib0"
    assert explained.lines[0].startswith(f"OVERLAP: 172.16.5.9, {escape}")
    checked = say("check", CIDR, "--snapshot", "-", stdin=saved)
    assert checked.lines[0].startswith(f"OVERLAP: {CIDR}, {escape}")


# Repairs: what is printed, and what has been typed already.


def test_a_deletion_is_proposed_once() -> None:
    """Where a blackhole hides pods, `check` and `repair` have its deletion once."""
    kernel = cni_node()
    kernel.ip_route("add", Route(Prefix.parse("10.244.0.128/25"), type="blackhole", protocol=4))
    command = "ip route del 10.244.0.128/25 table main proto 4"
    assert say("check", "10.244.0.0/24", kernel=kernel).out.count(command) == 1
    assert say("repair", "10.244.0.0/24", kernel=kernel).err.count(command) == 1


def test_a_permanent_repair_of_a_part_says_so() -> None:
    """`repair --commands` has only the permanent way where hostrouting is installed."""
    host = FakeHost(kernel=refusing())
    apply(host, {"routeOverlap": {"expectedCidrs": [CIDR]}})
    remarks = say("repair", CIDR, "--commands", host=host).err
    assert "permanently, as root (repairs only a part): hostrouting repair" in remarks


def test_a_part_of_a_repair_in_a_pipe() -> None:
    """Whoever pipes a partial repair into `apply` reads twice that it is one, for the exit code is
    lost.
    """
    repair = say("repair", CIDR, kernel=refusing())
    assert repair.code == 1
    assert repair.err.count("the printed configuration repairs only a part of what escapes") == 1
    assert "only a part" not in say("repair", CIDR, kernel=h200()).err
    host = FakeHost(kernel=refusing())
    applied = apply(host, json.loads(repair.out), "--wait", "0")
    assert applied.lines[0] == "DONE: this host matches the configuration, but addresses escape"


def test_a_repair_where_the_kernel_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel answers with another device than its tables have, nobody knows whether a repair
    is needed, although the tables are right.
    """

    def by_ib7(_: FakeKernel, addresses: Sequence[IP]) -> tuple[Answer, ...]:
        return tuple(Answer("unicast", Route.to(CIDR, dev="ib7")) for _ in addresses)

    monkeypatch.setattr(FakeKernel, "lookup", by_ib7)
    said = say("repair", CIDR, kernel=plain_vm())
    assert (said.code, said.out) == (3, "")
    assert "cannot tell whether a repair is needed:" in said.err
    assert f"the kernel answers [{CIDR} dev ib7 " in said.err


class TestTypedRoutes:
    """Where nothing is installed, `status` and `check` say that routes of ours will be lost."""

    FIRST, SECOND = (
        Route.to(half, dev="eth0", gateway="10.0.0.1", protocol=OURS)
        for half in ("172.16.0.0/17", "172.16.128.0/17")
    )

    @staticmethod
    def line(cidr: str) -> str:
        """What the pages of both commands say."""
        return (
            "ROUTE-NOT-CONFIGURED: 2 routes of hostrouting are set until the next boot; to keep "
            f"these routes, as root: hostrouting repair {cidr} | hostrouting apply --config -"
        )

    @pytest.fixture
    def host(self) -> FakeHost:
        """A host that was repaired by hand."""
        host = FakeHost(kernel=h200())
        host.kernel.ip_route("add", self.FIRST)
        host.kernel.ip_route("add", self.SECOND)
        return host

    def test_on_the_page(self, host: FakeHost) -> None:
        """With the command that keeps them."""
        status = say("status", host=host)
        assert status.code == 1
        assert self.line("CIDR") in status.lines
        page = say("check", CIDR, host=host)
        assert page.code == 0
        assert self.line(CIDR) in page.lines

    def test_in_the_document(self, host: FakeHost) -> None:
        """Both have the same finding, with the command of their pages."""
        [finding] = say("status", "--json", host=host).json["findings"]
        assert (finding["name"], finding["severity"]) == ("route-not-configured", "warning")
        assert finding["facts"] == {
            "unconfigured": ["172.16.0.0/17", "172.16.128.0/17"],
            "ranges": [],
            "routes": [],
        }
        command = f"hostrouting repair {CIDR} | hostrouting apply --config -"
        remedy = f"to keep these routes, as root: {command}"
        of_check = {**finding, "remedy": remedy, "commands": [command]}
        assert of_check in say("check", CIDR, "--json", host=host).json["findings"]

    def test_beside_a_repair(self, host: FakeHost) -> None:
        """It has the command already."""
        host.kernel.ip_route("delete", self.SECOND)
        assert say("check", CIDR, host=host).out.count("| hostrouting apply") == 1
        assert "1 route of hostrouting is set until the next boot" in say("status", host=host).out

    def test_where_hostrouting_is_installed(self, host: FakeHost) -> None:
        """`status` knows more then, and does not say this."""
        apply(host, {"routeOverlap": {"expectedCidrs": ["10.9.0.0/16"]}})
        assert "until the next boot" not in say("status", host=host).out


def test_what_was_typed_becomes_permanent() -> None:
    """The configuration that `repair` prints has what was missing."""
    host = FakeHost(kernel=h200())
    apply(host, {"routeOverlap": {"expectedCidrs": [CIDR]}})
    for half in ("172.16.0.0/17", "172.16.128.0/17"):
        host.kernel.ip_route("add", Route.to(half, dev="eth0", gateway="10.0.0.1", protocol=OURS))
    repair = say("repair", host=host)
    applied = apply(host, json.loads(repair.out), "--wait", "0")
    assert applied.code == 0
    assert "not in the configuration" not in applied.out


# What else is on the host.


def test_a_name_server_in_a_service_network() -> None:
    """It is a finding of a check on the host, of its snapshot, and of the verdict after apply."""
    host, typed = FakeHost(kernel=plain_vm()), ("--config", "-", "--json")
    host.files.texts["/etc/resolv.conf"] = "nameserver 10.96.0.10\n"
    assert say("snapshot", host=host).out.count("10.96.0.10") == 1
    text = b'{"routeOverlap": {"serviceCidrs": ["10.96.0.0/16"]}}'
    check, plan = (
        say(command, *typed, host=host, stdin=text).json for command in ("check", "plan")
    )
    assert (
        [row["target"] for row in check["findings"]]
        == [row["target"] for row in plan["check"]["findings"]]
        == ["10.96.0.10"]
    )


NETIF = "/run/systemd/netif"


UNMANAGED = {
    f"{NETIF}/links/1": "# Private.\nADMIN_STATE=unmanaged\nOPER_STATE=carrier\n",
    f"{NETIF}/links/2": "# Private.\nADMIN_STATE=unmanaged\nOPER_STATE=routable\n",
}


def networkd_notes(host: FakeHost, keep: str = "leave") -> int:
    """How many notes about systemd-networkd a check of this host has."""
    document = {"routeOverlap": {"expectedCidrs": [CIDR]}, "manageForeign": keep}
    said = say("check", "--config", "-", "--json", host=host, stdin=json.dumps(document).encode())
    notes = [
        finding["target"] for finding in said.json["findings"] if finding["severity"] == "note"
    ]
    return notes.count("systemd-networkd.service")


@pytest.mark.parametrize(
    ("files", "is_noted"),
    [
        (
            {f"{NETIF}/leases/.keep": "", f"{NETIF}/links/.keep": ""},
            False,
        ),  # as systemd-tmpfiles makes them at boot
        ({**UNMANAGED, f"{NETIF}/state": "OPER_STATE=routable\n"}, False),
        ({**UNMANAGED, f"{NETIF}/links/3": "ADMIN_STATE=pending\n"}, False),
        ({**UNMANAGED, f"{NETIF}/links/3": "ADMIN_STATE=configuring\n"}, True),
        ({**UNMANAGED, f"{NETIF}/links/3": "ADMIN_STATE=configured\n"}, True),
        ({**UNMANAGED, f"{NETIF}/links/3": "ADMIN_STATE=failed\n"}, True),
    ],
)
def test_what_a_networkd_writes(files: dict[str, str], *, is_noted: bool) -> None:
    """A check names networkd only where it manages a device: its folders are there at every boot."""
    host = FakeHost(kernel=h200())
    host.files.texts.update(files)
    assert networkd_notes(host) == is_noted


FOLDER = "systemd/networkd.conf.d"


@pytest.mark.parametrize(
    ("keep", "path", "text", "is_noted"),
    [
        ("leave", "", "", True),
        ("keep", "", "", False),
        ("leave", f"/etc/{FOLDER}/10-own.conf", "ManageForeignRoutes=no\n", False),
        ("leave", f"/run/{FOLDER}/10-own.conf", " ManageForeignRoutes = off \n", False),
        ("leave", f"/usr/local/lib/{FOLDER}/10-own.conf", "ManageForeignRoutes=no\n", False),
        ("leave", "/usr/lib/systemd/networkd.conf", "ManageForeignRoutes=False\n", False),
        ("leave", "/etc/systemd/networkd.conf", "ManageForeignRoutes=OFF\n", False),
        ("leave", "/etc/systemd/networkd.conf", "manageforeignroutes=no\n", True),
        ("leave", "/etc/systemd/networkd.conf", "#ManageForeignRoutes=no\n", True),
        ("leave", "/etc/systemd/networkd.conf", "ManageForeignRoutes=\nno\n", True),
        ("leave", "/etc/systemd/networkd.conf", "ManageForeignRoutes=yes\n", True),
    ],
)
def test_a_networkd_that_keeps_static_routes(
    keep: str, path: str, text: str, *, is_noted: bool
) -> None:
    """There is no note where networkd is told, by us or by somebody else, to keep the routes of
    other programs.
    """
    host = FakeHost(kernel=h200())
    host.files.texts[f"{NETIF}/links/2"] = "ADMIN_STATE=configured\n"
    if path:
        host.files.texts[path] = f"[Network]\n{text}"
    assert networkd_notes(host, keep) == is_noted


def test_what_keeps_probes_from_pods(tmp_path: Path) -> None:
    """An XDP program may take them: plan, status and check name it. If the route for replies waits,
    apply says so.
    """
    host, path = FakeHost(kernel=FakeKernel()), tmp_path / "config.json"
    host.kernel.add_link(Link(name="eth0", index=0, xdp=True))
    probes = {"enabled": True, "interfaces": ["eth0"], "ensureRoute": False}
    path.write_text(json.dumps({"probeRewrite": probes, "routeOverlap": {"expectedCidrs": [CIDR]}}))
    assert say("apply", "--config", str(path), "--wait", "0", host=host).code == 0
    for words, code in ((("plan", "--config", str(path)), 3), (("status",), 1), (("check",), 3)):
        said = say(*words, "--json", host=host)
        xdp = [
            finding["target"] for finding in said.json["findings"] if "XDP" in finding["sentence"]
        ]
        assert (said.code, xdp) == (code, ["eth0"]), words
    path.write_text('{"probeRewrite": {"enabled": true, "interfaces": ["eth9"]}}')
    said = say("apply", "--config", str(path))
    assert (
        said.lines[0]
        == "DONE: this host matches the configuration, except for the route for replies to probes"
    )
    assert any(line.startswith("ROUTE-WAITS: ") for line in said.lines)


def test_routes_that_would_wait_after_a_reboot(tmp_path: Path) -> None:
    """While the default route is gone, plan, apply and status name the routes that stay, and what
    to do; nothing fails, and for status something is wrong.
    """
    host, path = FakeHost(kernel=plain_vm()), tmp_path / "config.json"
    routes = [{"destination": "10.9.0.0/16"}, {"destination": "10.8.0.0/16"}]
    path.write_text(json.dumps({"staticRoutes": {"enabled": True, "routes": routes}}))
    assert say("apply", "--config", str(path), host=host).code == 0
    for route in host.kernel.snapshot().routes:
        if not route.prefix.length:
            host.kernel.ip_route("delete", route)
    commands = {("plan", "--config", str(path)): 0, ("apply", "--config", str(path)): 0}
    for words, code in (commands | {("status",): 1}).items():
        said = say(*words, host=host)
        [line] = [line for line in said.lines if line.startswith("ROUTE-STAYS: ")]
        assert line == (
            "ROUTE-STAYS: after the next boot, 2 routes, such as 10.9.0.0/16, will wait for an IPv4 "
            "default route; what is there now works; bring back what is missing, or write "
            '"dev" and "gateway" into the configured route'
        )
        assert said.code == code, said.out


# `plan`, `apply` and then `status`.


@pytest.mark.parametrize("cidrs", [[CIDR], [CIDR, "10.9.0.0/16"], []])
def test_plan_names_the_files_that_apply_changes(cidrs: list[str]) -> None:
    """The marker of a check is not one of them: it goes with the configuration that it is about."""
    host = FakeHost(kernel=plain_vm())
    installed = {"routeOverlap": {"expectedCidrs": [CIDR], "mode": "WARN"}, "manageForeign": "keep"}
    wanted = {"routeOverlap": {"expectedCidrs": cidrs, "mode": "STRICT"}, "manageForeign": "keep"}
    assert apply(host, installed).code == 0
    before = {*host.files.texts, *host.files.links}
    typed = ("plan", "--config", "-", "--allow-removal", "--json")
    plan = say(*typed, host=host, stdin=json.dumps(wanted).encode()).json
    files = apply(host, wanted, "--allow-removal", "--json").json["files"]
    assert (files["write"], files["remove"]) == (plan["writes"], plan["removes"])
    gone = before - {*host.files.texts, *host.files.links}
    assert {*files["remove"]} == gone - {HostLayout.ok_path}
    assert (HostLayout.ok_path in gone) is (not cidrs)


def test_what_apply_would_not_mend() -> None:
    """If nothing escapes, a repair keeps what is in conflict; status proposes no apply that would
    fail, and names UNSAFE.
    """
    host = FakeHost(kernel=plain_vm())
    routes = {"staticRoutes": {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}]}}
    check = {"routeOverlap": {"expectedCidrs": ["172.16.0.0/17"]}}
    assert apply(host, routes | check).code == 0
    kernel = plain_vm()
    kernel.ip_route("add", Route.to("172.16.0.0/17", dev="eth0", gateway="10.0.0.7", protocol=4))
    held = FakeHost(kernel=kernel, files=host.files)
    held.files.modes[HostLayout.gate_path] = 0o600
    assert say("repair", host=held).json["staticRoutes"] == routes["staticRoutes"]
    kernel.add_rule(
        Rule(family=4, priority=10, action="prohibit", dst=Prefix.parse("172.16.3.0/24"))
    )
    said = say("status", host=held)
    assert "UNSAFE: " in said.out
    assert "hostrouting apply --config" not in said.out


def test_apply_where_nothing_holds_units_back() -> None:
    """Without systemd, `apply` does not say that all is done, also if it changes nothing."""
    host = FakeHost(kernel=h200())
    assert host.manager is not None
    host.manager.running = False
    check = {"routeOverlap": {"expectedCidrs": [CIDR]}}
    for first in ("DONE", "NOTHING TO DO"):
        page = apply(host, check)
        escape = "systemd-nspawn@.service can start unchecked and addresses escape"
        assert page.lines[0] == f"{first}: this host matches the configuration, but {escape}"
        assert "GATE-OPEN: systemd does not run here" in page.out


def test_what_another_run_has_installed_meanwhile_is_not_taken_away() -> None:
    """While apply waits for the lock, another run installs STRICT: that is refused as if it had
    been there before.
    """
    host = FakeHost(kernel=plain_vm())
    warn = {"routeOverlap": {"expectedCidrs": [CIDR], "mode": "WARN"}}
    strict = {"routeOverlap": {"expectedCidrs": [CIDR], "mode": "STRICT"}}
    host.faults.meanwhile("snapshot", lambda: apply(host, strict))
    said = apply(host, warn, "--json")
    assert (said.code, said.json["failures"][0]["faults"][0]["path"]) == (2, "routeOverlap.mode")
    assert '"STRICT"' in host.files.texts["/etc/hostrouting/config.json"]
    stdin = json.dumps(warn).encode()
    allowed = say("plan", "--config", "-", "--allow-removal", host=host, stdin=stdin)
    assert allowed.lines[0] == "TO DO: as root: the same command with apply instead of plan"


def test_a_refused_file_gates_nothing() -> None:
    """After a refusal, the answer is about the units that wait for the gate, and not about those of
    the file.
    """
    host = FakeHost(kernel=h200())
    gated = {"routeOverlap": {"expectedCidrs": [CIDR]}, "gate": {"units": ["kubelet.service"]}}
    assert apply(host, gated).code == 0
    said = apply(host, {"routeOverlap": {"expectedCidrs": ["10.0.0.0/8"]}}, "--json")
    assert said.code == 2
    assert said.json["failures"][0]["error"] == "ConfigError"
    assert said.json["findings"] == []


def test_a_stopped_run() -> None:
    """After Ctrl-C the page says what was changed until then, and how the host is now."""
    host = FakeHost(kernel=FakeKernel())  # without a default route, so apply waits
    host.faults.meanwhile("snapshot", lambda: signal.raise_signal(signal.SIGINT), nth=2)
    waiting = {"staticRoutes": {"enabled": True, "routes": [{"destination": "9.0.0.0/8"}]}}
    said = apply(host, waiting)
    assert said.code == 130
    first, second, third, *others = said.lines
    assert first == "STOPPED: SIGINT; not everything was done"
    assert (second, third) == ("What this run has changed:", f"  wrote {HostLayout.config_path}")
    now = "NOT READY: systemd-nspawn@.service cannot start: 9.0.0.0/8 needs an IPv4 default route"
    assert [line for line in others if line.startswith("NOT READY")] == [now]


def test_the_mode_without_systemd() -> None:
    """The mode is in config.json, so `status` shows it where nothing is known about the guard."""
    host = FakeHost(manager=None)
    apply(host, {"routeOverlap": {"expectedCidrs": ["10.9.0.0/16"], "mode": "STRICT"}})
    assert "  mode STRICT" in say("status", host=host).lines


def test_status_says_what_it_can() -> None:
    """Somebody who may not list nftables still learns what escapes, and what is not known; alone,
    that is exit code 3.
    """
    host = FakeHost(kernel=h200())
    refusal = HostError("nft could not list the table", what="nft", kind="not-permitted")
    for allowed, code, verdict in (([], 1, "OVERLAP"), (["ib*"], 3, "OK")):
        check = {"expectedCidrs": [CIDR], "allowedDevs": allowed}
        config = {"routeOverlap": check, "probeRewrite": {"enabled": True, "interfaces": ["eth0"]}}
        assert apply(host, config).code == 0
        host.nftables.fault = refusal
        said = say("status", host=host)
        host.nftables.fault = None
        assert said.code == code
        assert "REQUIREMENT: nft could not list the table" in said.lines
        assert any(line.startswith(f"{verdict}: ") for line in said.lines)
