"""From arguments to an exit code: what may be typed, what is read, and what is written on which
stream.
"""

import ast
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import assume, given, strategies as st

from hostrouting.check.check import check_snapshot
from hostrouting.cli.parser import COMMANDS, make_parser
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, ConfigError, HostError
from hostrouting.finding import NAMES
from hostrouting.host.layout import HostLayout
from hostrouting.install.host_check import HostCheck
from hostrouting.kernel.programs import Rights
from hostrouting.model.prefix import Prefix, ip_at, width_of
from hostrouting.model.route import OURS, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.tasks.configure import Configure
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
from tests.support.cli import say
from tests.support.nodes import block_of, nodes
from tests.support.programs import completed
from tests.support.sections import expect
from tests.support.topologies import refusing

CIDR = "172.16.0.0/16"
ROOT = Path(__file__).resolve().parents[3]
HOSTS = {
    "h200": h200,
    "vpn": vpn_node,
    "cni": cni_node,
    "ecmp": ecmp_node,
    "bare": FakeKernel,
    "refusing": refusing,
}


# What may be typed.

SLOW = {"attrs", "dataclasses", "inspect", "logging", "phases", "subprocess", "threading"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str) -> None:
    """Each command says what it is for, and what its exit codes mean."""
    said = say(name, "--help")
    assert (said.code, said.out.isascii(), max(map(len, said.lines)) <= 80) == (0, True, True)
    assert COMMANDS[name][1:] in said.out.replace("\n", " ")
    assert said.lines[-4:] == say("--help").lines[-4:]
    assert f"    {name} " in say("--help").out
    after_summary = said.out.split("\n\n")[2]
    assert after_summary[0].isupper() or after_summary.startswith(("options:", "positional"))


@pytest.mark.linux
@pytest.mark.parametrize("words", ["--help", "chek", "", "check"])
def test_what_is_loaded(words: str) -> None:
    """Help and bad usage are answered before the configuration or a kernel is loaded; a check loads
    nothing slow.
    """
    code = f"from hostrouting.cli import main; main({words.split()})"
    if words == "check":
        code = "import hostrouting.cli.commands.check, hostrouting.host.host, hostrouting.kernel.netlink"
    timed = completed([sys.executable, "-X", "importtime", "-c", code]).stderr
    loaded = {line.rpartition("|")[2].strip() for line in timed.splitlines()}
    assert "hostrouting.cli" in loaded
    assert (
        not (SLOW if words == "check" else {"json", "ipaddress", "hostrouting.errors", *SLOW})
        & loaded
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "required: COMMAND"),
        ("chek 10.0.0.0/8", "did you mean: hostrouting check 10.0.0.0/8"),
        ("10.0.0.0/8", "invalid choice: '10.0.0.0/8'"),
        ("--config x;y check", "did you mean: hostrouting check --config 'x;y'"),
        (
            "--snapshot s.json check 172.16.0.0/16",
            "did you mean: hostrouting check --snapshot s.json 172.16.0.0/16",
        ),
        ("explain", "required: ADDRESS"),
        (
            "explain 172.16.0.0/16",
            'ADDRESS: "172.16.0.0/16" is not an address; an example: 172.16.5.9',
        ),
        (
            "explain fe80::1%eth0",
            'ADDRESS: "fe80::1%eth0" has a zone; write the address without it',
        ),
        ("explain ::ffff:10.0.0.1", 'is IPv4, written as IPv6; write "10.0.0.1"'),
        (
            "check ::ffff:10.0.0.0/104",
            'CIDR: "::ffff:10.0.0.0/104" is IPv4, written as IPv6; write',
        ),
        ("explain 0.0.0.0", "is not the address of one host"),
        ("explain ff02::1", "is not the address of one host"),
        ("explain 255.255.255.255", "is not the address of one host"),
        ("check", "no expected CIDR is given, so there is nothing to check"),
        ("check 172.16.5 x/8", "the command line has 2 faults:"),
        ("check --js", "usage: hostrouting check [-h]"),
        ("remove all", "hostrouting remove: error: unrecognized arguments: all"),
        ("check --config - --snapshot -", "hostrouting check: error: - can be given only once"),
        ("check --snapshot=a --snapshot b", "--snapshot can be given only once"),
        ("clean cilium --config x", "invalid choice: 'cilium'"),
        (
            "check --ignore overlapp",
            "invalid choice: 'overlapp' (choose from 'overlap', 'refused', ",
        ),
        ("check --fail-on note", "invalid choice: 'note'"),
        ("apply --config x --wait abc", "invalid seconds value: 'abc'"),
        ("apply --config x --wait nan", "not between 0 and 86400"),
    ],
)
def test_bad_usage(words: str, problem: str) -> None:
    """Bad usage is exit code 2, and the problem is on standard error."""
    said = say(*words.split())
    assert (said.code, said.out, problem in said.err) == (2, "", True)


def test_proposed_commands_can_be_typed() -> None:
    """Each command that a message of ours proposes has all its arguments, and no others."""
    pattern = re.compile(
        rf"(?:: |(?:[Rr]un|with) `?)(hostrouting (?:{'|'.join(COMMANDS)})\b[^;,`()'\"\\\n]*)"
    )
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "hostrouting").rglob("*.sh")]
    for path in (ROOT / "hostrouting").rglob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
        parts = {id(part) for node in joined for part in node.values}
        texts += [
            str(node.value)
            for node in nodes
            if isinstance(node, ast.Constant) and id(node) not in parts
        ]
        texts += [
            "".join(
                str(part.value) if isinstance(part, ast.Constant) else "value"
                for part in node.values
            )
            for node in joined
        ]
    proposed = {command for text in texts for command in pattern.findall(text)}
    assert {"hostrouting status", "hostrouting snapshot > FILE"} <= {
        command.strip() for command in proposed
    }
    for command in proposed:
        make_parser().parse_args(
            shlex.split(re.split(" > | # | [|] ", command)[0].rstrip(". "))[1:]
        )


# What is read.


@pytest.mark.parametrize("words", ["plan --config", f"check {CIDR} --snapshot"])
@pytest.mark.parametrize("data", [None, b"", b"{", b"{\xff}", b"[" * 100_000, b"[]"])
def test_a_file_that_is_not_what_it_should_be(
    words: str, data: bytes | None, tmp_path: Path
) -> None:
    """Exit code 2; the error names the file, and has the same faults as a document."""
    path = tmp_path / "file.json"
    if data is not None:
        path.write_bytes(data)
    said, document = say(*words.split(), str(path)), say(*words.split(), str(path), "--json").json
    assert (said.code, said.out, str(path) in said.err) == (2, "", True)
    assert [fault["rule"] in said.err for fault in document["faults"]] == [True]


@pytest.mark.parametrize("words", ["plan --config", f"check {CIDR} --snapshot"])
def test_a_file_that_may_not_be_read(words: str) -> None:
    """Exit code 3, as for everything else that lacks a permission."""
    with mock.patch("builtins.open", side_effect=PermissionError(13, "Permission denied")):
        said = say(*words.split(), "file.json")
    assert (said.code, said.err) == (
        3,
        "hostrouting: file.json cannot be read: Permission denied\n",
    )


def test_a_device_that_is_typed() -> None:
    """`check --dev` expects it instead of the default route's, and so does the line of the repair."""
    said = say("check", CIDR, "--dev", "ib0", kernel=h200())
    assert said.out.startswith("OK: every address of 172.16.0.0/16 leaves through ib0")
    said = say(
        "check", "10.0.0.0/8", "--dev", "eth1", "--dev", "ib0", kernel=h200()
    )  # eth1 may come
    assert said.lines[0] == (
        "OVERLAP: all of 10.0.0.0/8 leaves through eth0; expected: eth1 or ib0"
    )
    said = say("check", CIDR, "--dev", "a/b", kernel=h200())
    assert (said.code, "hostrouting: --dev:" in said.err) == (2, True)
    for words in (["check", CIDR], ["repair", CIDR], ["repair", "--commands", CIDR]):
        said = say(*words, "--dev", "eth1", kernel=plain_vm())
        assert (said.code, said.out, said.err) == (
            2,
            "",
            'hostrouting: --dev: "eth1" is not a device of this host; it has eth0\n',
        )
    assert say("check", CIDR, "--dev", "eth0", kernel=h200()).out.endswith(
        f"  hostrouting repair {CIDR} --dev eth0 | hostrouting apply --config -\n"
    )
    repair = json.loads(say("repair", CIDR, "--dev", "eth0", kernel=h200()).out)
    assert repair["routeOverlap"]["expectedDevs"] == ["eth0"]


@pytest.mark.parametrize("words", [[], ["--root", "/x", "--tar", "/y"]])
def test_where_files_are_rendered(words: list[str], tmp_path: Path) -> None:
    """Exactly one of --root and --tar is needed."""
    (tmp_path / "config.json").write_text("{}")
    said = say("render", "--config", str(tmp_path / "config.json"), *words)
    assert said.code == 2
    assert "--root, --tar: exactly one of them says where the files go" in said.err


def test_an_empty_root(tmp_path: Path) -> None:
    """An empty --root, as of an unset variable, is not the current directory."""
    (tmp_path / "config.json").write_text("{}")
    said = say("render", "--config", str(tmp_path / "config.json"), "--root", "")
    assert (said.code, said.err) == (
        2,
        "hostrouting: --root: '' is not a directory; mount the image there first\n",
    )


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize(
    "words", ["check 172.16.0.0/12 10.0.0.0/8", "repair 172.16.0.0/12", "explain 172.16.5.9"]
)
def test_a_snapshot_gives_the_same_answer(name: str, words: str) -> None:
    """What is saved on one host is judged on another as on the host itself, whatever is installed
    there.
    """
    host, elsewhere = (
        FakeHost(kernel=HOSTS[name]()),
        FakeHost(files=FakeFiles({HostLayout.config_path: "{"})),
    )
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
    say("apply", "--config", "-", host=host, stdin=json.dumps({"routeOverlap": check}).encode())
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
    say("apply", "--config", "-", host=host, stdin=json.dumps(check).encode())
    text, _ = UNUSABLE[name]
    del host.files.texts[HostLayout.config_path]
    if name == "a folder":
        host.files.texts[f"{HostLayout.config_path}/inside"] = ""
    elif text is not None:
        host.files.texts[HostLayout.config_path] = text
    return host


@pytest.mark.parametrize("name", UNUSABLE)
def test_typed_cidrs_need_no_configuration(name: str) -> None:
    """Typed CIDRs are checked where config.json is unusable; a warning names the file and the
    fault.
    """
    host = with_unusable_config(name, h200())
    said = say("check", CIDR, "--json", host=host)
    assert (said.code, said.err, said.json["verdict"]) == (1, "", "overlap")
    [warning] = [finding for finding in said.json["findings"] if finding["name"] == "file"]
    sentence = f"the installed configuration was not used: {UNUSABLE[name][1]}"
    assert warning["sentence"].startswith(sentence)
    assert (warning["severity"], warning["target"]) == ("warning", HostLayout.config_path)
    page = say("check", CIDR, host=host)
    assert (page.code, f"FILE: {warning['sentence']}" in page.out) == (1, True)
    at = page.lines.index(f"FILE: {warning['sentence']}")
    repair = f"hostrouting repair {CIDR}"
    anew = f"echo {{}} | {repair} --config - | hostrouting apply --config - --allow-removal"
    is_there = host.files.look(HostLayout.config_path) is not None
    assert page.lines[at + 1].startswith(f"  correct {HostLayout.config_path}") == is_there
    assert page.out.count(anew) == 1
    assert say("explain", "172.16.5.9", host=host).lines[0].startswith("OVERLAP: ")
    assert sentence in say("explain", "172.16.5.9", host=host).err
    # An exit code of its own only where it is asked for.
    fine = with_unusable_config(name, plain_vm())
    codes = [say("check", CIDR, *more, host=fine).code for more in ([], ["--fail-on", "warning"])]
    assert codes == [0, 1]


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
    check = {"routeOverlap": {"expectedCidrs": [CIDR]}}
    say("apply", "--config", "-", host=host, stdin=json.dumps(check).encode())
    remarks = say("repair", CIDR, "--commands", host=host).err
    assert "permanently, as root (repairs only a part): hostrouting repair" in remarks


def test_routes_that_were_typed_are_told() -> None:
    """Where nothing is installed, `status` and `check` say that routes of ours will be lost: on the
    page and in the document.
    """
    host = FakeHost(kernel=h200())
    first, second = (
        Route.to(half, dev="eth0", gateway="10.0.0.1", protocol=OURS)
        for half in ("172.16.0.0/17", "172.16.128.0/17")
    )
    host.kernel.ip_route("add", first)
    host.kernel.ip_route("add", second)
    told = "ROUTE-NOT-CONFIGURED: 2 routes of hostrouting are set until the next boot"
    status = say("status", host=host)
    assert status.code == 1
    assert (
        f"{told}; to keep these routes, as root: hostrouting repair CIDR | hostrouting apply "
        "--config -" in status.lines
    )
    [finding] = say("status", "--json", host=host).json["findings"]
    assert (finding["name"], finding["severity"]) == ("route-not-configured", "warning")
    assert finding["facts"] == {
        "unconfigured": ["172.16.0.0/17", "172.16.128.0/17"],
        "ranges": [],
        "routes": [],
    }
    page = say("check", CIDR, host=host)
    assert page.code == 0
    assert (
        f"{told}; to keep these routes, as root: hostrouting repair {CIDR} | hostrouting apply "
        "--config -" in page.lines
    )
    assert finding in say("check", CIDR, "--json", host=host).json["findings"]
    # A repair has the command already, and where hostrouting is installed, status knows more.
    host.kernel.ip_route("delete", second)
    page = say("check", CIDR, host=host)
    assert page.out.count("| hostrouting apply") == 1
    assert "1 route of hostrouting is set until the next boot" in say("status", host=host).out
    say(
        "apply",
        "--config",
        "-",
        host=host,
        stdin=b'{"routeOverlap": {"expectedCidrs": ["10.9.0.0/16"]}}',
    )
    assert "until the next boot" not in say("status", host=host).out


def test_a_part_of_a_repair_in_a_pipe() -> None:
    """Whoever pipes a partial repair into `apply` reads twice that it is one, for the exit code is
    lost.
    """
    repair = say("repair", CIDR, kernel=refusing())
    assert repair.code == 1
    assert repair.err.count("the printed configuration repairs only a part of what escapes") == 1
    assert "only a part" not in say("repair", CIDR, kernel=h200()).err
    host = FakeHost(kernel=refusing())
    apply = say("apply", "--config", "-", "--wait", "0", host=host, stdin=repair.out.encode())
    assert apply.lines[0] == "DONE: this host matches the configuration, but addresses escape"


def test_what_was_typed_becomes_permanent() -> None:
    """The configuration that `repair` prints has what was missing."""
    host = FakeHost(kernel=h200())
    check = {"routeOverlap": {"expectedCidrs": [CIDR]}}
    say("apply", "--config", "-", host=host, stdin=json.dumps(check).encode())
    for half in ("172.16.0.0/17", "172.16.128.0/17"):
        host.kernel.ip_route("add", Route.to(half, dev="eth0", gateway="10.0.0.1", protocol=OURS))
    repair = say("repair", host=host)
    apply = say("apply", "--config", "-", "--wait", "0", host=host, stdin=repair.out.encode())
    assert (apply.code, "not in the configuration" in apply.out) == (0, False)


def test_apply_where_nothing_holds_units_back() -> None:
    """Without systemd, or while the gate is open, `apply` does not say that all is done."""
    host = FakeHost(kernel=h200())
    assert host.manager is not None
    host.manager.running = False
    check = {"routeOverlap": {"expectedCidrs": [CIDR]}}
    for first in ("DONE", "NOTHING TO DO"):
        page = say("apply", "--config", "-", host=host, stdin=json.dumps(check).encode())
        escape = "units can start unchecked and addresses escape"
        assert page.lines[0] == f"{first}: this host matches the configuration, but {escape}"
        assert "GATE-OPEN: systemd does not run here" in page.out


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_needs_the_configuration(name: str) -> None:
    """A check without typed CIDRs is refused, and a repair, which would drop what is installed."""
    host = with_unusable_config(name, h200())
    for words in (["check"], ["repair", CIDR]):
        said = say(*words, host=host)
        assert (said.code != 0, said.out, HostLayout.config_path in said.err) == (True, "", True)


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
def test_what_a_networkd_writes(files: dict[str, str], is_noted: bool) -> None:  # noqa: FBT001  a column
    """A check names networkd only where it manages a device: its folders are there at every boot."""
    host = FakeHost(kernel=h200())
    host.files.texts.update(files)
    assert networkd_notes(host) == is_noted


@pytest.mark.parametrize(
    ("keep", "line", "is_noted"),
    [
        ("leave", "", True),
        ("keep", "", False),
        ("leave", "ManageForeignRoutes=no", False),
        ("leave", "#ManageForeignRoutes=no", True),
    ],
)
def test_a_networkd_that_keeps_static_routes(keep: str, line: str, is_noted: bool) -> None:  # noqa: FBT001  a column
    """There is no note where networkd is told, by us or by somebody else, to keep the routes of
    other programs.
    """
    host = FakeHost(kernel=h200())
    host.files.texts[f"{NETIF}/links/2"] = "ADMIN_STATE=configured\n"
    host.files.texts["/etc/systemd/networkd.conf.d/10-own.conf"] = f"[Network]\n{line}\n"
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


def test_an_image_needs_root(tmp_path: Path) -> None:
    """Without root the files would belong to somebody who could then change what root runs: none is
    written.
    """
    config, image = tmp_path / "config.json", tmp_path / "image"
    config.write_text('{"routeOverlap": {"expectedCidrs": ["10.0.0.0/8"]}}')
    image.mkdir()
    words = ["render", "--config", str(config), "--root", str(image)]
    said = say(*words, host=FakeHost(rights=lambda: Rights(is_root=False)))
    assert (said.code, said.out, [*image.iterdir()]) == (2, "", [])
    assert f"as root: hostrouting {shlex.join(words)}" in said.err
    assert "another user" in said.err


# What is written on which stream, and the exit code.


@given(nodes(), st.frozensets(st.sampled_from(NAMES)))
def test_ignored_findings_do_not_count(node: tuple[int, Snapshot], ignored: frozenset[str]) -> None:
    """The exit code is the verdict's if nothing is ignored, never worse for what is, and 0 if all
    is.
    """
    family, snapshot = node
    config = HostRoutingConfig(route_overlap=expect(block_of(family)))
    check = HostCheck.of(check_snapshot(snapshot, config), config)
    order = [0, 3, 1]
    assert check.code() == {"ok": 0, "overlap": 1}.get(check.report.verdict, 3)
    assert order.index(check.code(ignored)) <= order.index(check.code())
    assert check.code(NAMES) == 0
    beside = {finding.name for finding in check.findings} - ignored
    assert check.code(ignored) == (0 if not beside else check.code({*NAMES} - beside))


def test_names_of_findings_in_any_case() -> None:
    """A name can be typed as a page prints it, in capitals, or as --json does."""
    host = FakeHost(kernel=plain_vm())
    host.faults.is_restless = True
    for name in ("KERNEL-DIFFERS", "kernel-differs", "Kernel-Differs"):
        assert (
            say("check", CIDR, host=host).code,
            say("check", CIDR, "--ignore", name, host=host).code,
        ) == (3, 0)
    assert say("check", CIDR, "--fail-on", "WARNING", host=host).code == 1


@given(nodes(), st.integers(0, 1 << 16), st.booleans())
def test_explain_agrees_with_check(
    node: tuple[int, Snapshot],
    place: int,
    has_lost_a_rule: bool,  # noqa: FBT001  hypothesis gives it
) -> None:
    """Where a device is expected, it begins with the verdict of a check of the address alone."""
    family, block = node[0], block_of(node[0])
    snapshot = node[1]._replace(
        rules=node[1].rules[has_lost_a_rule:]
    )  # the first is that for table local
    address = str(ip_at(family, block.first + place % (block.last - block.first + 1)))
    config = HostRoutingConfig(route_overlap=expect(address + f"/{width_of(family)}"))
    report = check_snapshot(snapshot, config)
    assume(report.families[0].expected_devs)
    said = say("explain", address, "--snapshot", "-", stdin=snapshot.to_json().encode())
    word = said.lines[0].partition(":")[0].lower()
    assert (word if word in {"ok", "undecided"} else "overlap") == report.verdict


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


def test_warnings_as_errors(tmp_path: Path) -> None:
    """With --fail-on warning, a warning is exit code 1, unless it is ignored; plan and check alike."""
    kernel, saved, config = plain_vm(), tmp_path / "node.json", tmp_path / "config.json"
    kernel.add_link(Link(name="eth1", index=0))
    kernel.add_address("eth1", "192.168.1.2/24")
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth1", gateway="192.168.1.1", metric=200))
    saved.write_text(kernel.snapshot().to_json())
    config.write_text(json.dumps({"routeOverlap": {"expectedCidrs": [CIDR]}}))
    for command in ("check", "plan"):
        words = (command, "--config", str(config), "--snapshot", str(saved))
        assert [say(*words).code, say(*words, "--fail-on", "warning").code] == [0, 1]
        assert say(*words, "--fail-on", "warning", "--ignore", "default-routes").code == 0


def test_how_long_apply_waits() -> None:
    """A minute, as the task does, and as --help says."""
    usual = Configure(HostRoutingConfig()).wait
    assert make_parser().parse_args(["apply", "--config", "FILE"]).wait == usual == 60
    assert f"default route or device ({usual:g})" in say("apply", "--help").out


@pytest.mark.parametrize("name", ["my config.json", "-"])
def test_a_proposed_file_can_be_typed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is quoted for a shell; standard input has none."""
    monkeypatch.chdir(tmp_path)
    text = json.dumps({"routeOverlap": {"expectedCidrs": [CIDR]}})
    Path("my config.json").write_text(text)
    said = say("plan", "--config", name, stdin=text.encode(), kernel=plain_vm())
    typed = shlex.split(said.lines[0].removeprefix("TO DO: as root: "))
    assert typed == ["hostrouting", "apply", "--config", "FILE" if name == "-" else name]
    assert say("plan", "--config", "-", stdin=b"7").err.startswith(
        "hostrouting: standard input: 7 is not an object"
    )
    with (
        mock.patch("sys.stdin", None),
        pytest.raises(ConfigError, match="standard input is closed"),
    ):
        HostRoutingConfig.load("-")


def test_a_bug_a_refusal_and_an_interrupt() -> None:
    """A bug shows where it is; a refusal is one line, and so is Ctrl-C, with the exit code of a
    shell.
    """
    said = say(
        "check", CIDR, host=FakeHost(backend=mock.Mock(side_effect=ZeroDivisionError("oops")))
    )
    assert (said.code, said.out, "ZeroDivisionError: oops" in said.err) == (3, "", True)
    refusal = BackendError("this requires root", kind="not-permitted")
    said = say("check", CIDR, host=FakeHost(backend=mock.Mock(side_effect=refusal)))
    assert said == (3, "", "hostrouting: this requires root\n")
    said = say("check", CIDR, host=FakeHost(backend=mock.Mock(side_effect=KeyboardInterrupt())))
    assert said == (130, "", "hostrouting: interrupted\n")


def test_names_do_not_steer_the_terminal() -> None:
    """Control characters in a device's name are shown as text."""
    text = say("snapshot", kernel=h200()).out.replace('"ib0"', '"ib\\u001b[31m"')
    for words in (("check", CIDR), ("explain", "172.16.5.9"), ("check", CIDR, "--json")):
        assert "\x1b" not in say(*words, "--snapshot", "-", stdin=text.encode()).out


@pytest.mark.linux
class TestAsAProgram:
    """The program in a process of its own, with a saved snapshot."""

    @pytest.fixture
    def command(self, tmp_path: Path) -> list[str]:
        """The check of an H200 node."""
        (tmp_path / "node.json").write_text(h200().snapshot().to_json())
        return [
            sys.executable,
            "-m",
            "hostrouting",
            "check",
            CIDR,
            "--snapshot",
            str(tmp_path / "node.json"),
        ]

    @pytest.mark.parametrize("rich", [True, False])
    @pytest.mark.parametrize("no_colour", ["", "1"])
    def test_a_terminal(self, command: list[str], rich: bool, no_colour: str) -> None:  # noqa: FBT001  a parameter
        """A terminal has colours and a strip if rich is installed and NO_COLOR is not set; all else
        is the same.
        """
        plain = completed(command).stdout
        if not rich:
            code = "import sys; sys.modules['rich.console'] = None; from hostrouting.cli import main; sys.exit(main(sys.argv[1:]))"
            command = [sys.executable, "-c", code, *command[3:]]
        ours, theirs = pty.openpty()
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLUMNS": "40",
            "NO_COLOR": no_colour,
        }
        environment["LC_ALL"] = "C.UTF-8"
        with subprocess.Popen(command, stdout=theirs, env=environment) as program:
            assert program.wait(60) == 1
        os.close(theirs)
        shown = os.read(ours, 65536).decode().replace("\r\n", "\n")
        os.close(ours)
        assert ("\x1b[1;31m" in shown) is (rich and not no_colour)
        text = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert text == plain.replace(
            "\n\n", f"\n  {CIDR}      {'█' * 40}  ib0 100%\n\n" if rich else "\n\n", 1
        )

    @pytest.mark.parametrize("where", ["| true", ">&-", "2>&-", ">/dev/full"])
    def test_an_answer_that_goes_nowhere(self, command: list[str], where: str) -> None:
        """A reader who goes away is not a failure, and there is no complaint; a full disk is one."""
        fine = shlex.join(command).replace(CIDR, "10.0.0.0/24")
        done = completed(["bash", "-c", f"{fine} {where}; exit ${{PIPESTATUS[0]}}"])
        problem = (
            "hostrouting: the answer could not be written: No space left on device\n"
            if "full" in where
            else ""
        )
        assert (done.returncode, done.stderr) == (bool(problem), problem)

    def test_a_snapshot_that_nothing_takes(self, command: list[str]) -> None:
        """A check has its exit code; a snapshot is only what is written, so a closed output is a
        mistake.
        """
        done = completed(["bash", "-c", f"{shlex.join(command[:3])} snapshot >&-"])
        assert (done.returncode, "standard output is closed" in done.stderr) == (2, True)

    def test_completion(self, tmp_path: Path) -> None:
        """Argcomplete completes commands and options."""
        pytest.importorskip("argcomplete")
        environment = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "words")}
        environment |= {
            "COMP_LINE": "hostrouting check --sn",
            "COMP_POINT": "22",
            "_ARGCOMPLETE_IFS": "\n",
        }
        completed([sys.executable, "-m", "hostrouting"], env={**os.environ, **environment})
        assert (tmp_path / "words").read_text().split() == ["--snapshot", "--snapshots"]


def test_what_another_run_has_installed_meanwhile_is_not_taken_away() -> None:
    """While apply waits for the lock, another run installs STRICT: that is refused as if it had
    been there before.
    """
    host, typed = FakeHost(kernel=plain_vm()), ("apply", "--config", "-")
    warn = json.dumps({"routeOverlap": {"expectedCidrs": [CIDR], "mode": "WARN"}}).encode()
    strict = warn.replace(b"WARN", b"STRICT")
    host.faults.meanwhile("snapshot", lambda: say(*typed, host=host, stdin=strict))
    said = say(*typed, "--json", host=host, stdin=warn)
    assert (said.code, said.json["failures"][0]["faults"][0]["path"]) == (2, "routeOverlap.mode")
    assert '"STRICT"' in host.files.texts["/etc/hostrouting/config.json"]
    allowed = say("plan", "--config", "-", "--allow-removal", host=host, stdin=warn)
    assert allowed.lines[0] == "TO DO: as root: hostrouting apply --config FILE --allow-removal"


def test_a_refused_file_gates_nothing() -> None:
    """After a refusal, the answer is about the units that wait for the gate, and not about those of
    the file.
    """
    host = FakeHost(kernel=h200())
    gated = {"routeOverlap": {"expectedCidrs": [CIDR]}, "gate": {"units": ["kubelet.service"]}}
    assert say("apply", "--config", "-", host=host, stdin=json.dumps(gated).encode()).code == 0
    said = say(
        "apply",
        "--config",
        "-",
        "--json",
        host=host,
        stdin=b'{"routeOverlap": {"expectedCidrs": ["10.0.0.0/8"]}}',
    )
    assert (said.code, said.json["failures"][0]["error"], said.json["findings"]) == (
        2,
        "ConfigError",
        [],
    )


def test_the_mode_without_systemd() -> None:
    """The mode is in config.json, so `status` shows it where nothing is known about the guard."""
    stdin = b'{"routeOverlap": {"expectedCidrs": ["10.9.0.0/16"], "mode": "STRICT"}}'
    host = FakeHost(manager=None)
    say("apply", "--config", "-", host=host, stdin=stdin)
    assert "  mode STRICT" in say("status", host=host).lines


def test_status_says_what_it_can() -> None:
    """Somebody who may not list nftables still learns what escapes, and what is not known; alone,
    that is exit code 3.
    """
    host, allowed = FakeHost(kernel=h200()), {"expectedCidrs": [CIDR], "allowedDevs": ["ib*"]}
    refusal = HostError("nft could not list the table", what="nft", kind="not-permitted")
    for check, code, verdict in (({"expectedCidrs": [CIDR]}, 1, "OVERLAP"), (allowed, 3, "OK")):
        config = {"routeOverlap": check, "probeRewrite": {"enabled": True, "interfaces": ["eth0"]}}
        assert say("apply", "--config", "-", host=host, stdin=json.dumps(config).encode()).code == 0
        host.nftables.fault = refusal
        said = say("status", host=host)
        host.nftables.fault = None
        assert said.code == code
        assert "REQUIREMENT: nft could not list the table" in said.lines
        assert any(line.startswith(f"{verdict}: ") for line in said.lines)


@pytest.mark.parametrize("cidrs", [[CIDR], [CIDR, "10.9.0.0/16"], []])
def test_plan_names_the_files_that_apply_changes(cidrs: list[str]) -> None:
    """The marker of a check is not one of them: it goes with the configuration that it is about."""
    host = FakeHost(kernel=plain_vm())
    installed = {"routeOverlap": {"expectedCidrs": [CIDR], "mode": "WARN"}, "manageForeign": "keep"}
    wanted = {"routeOverlap": {"expectedCidrs": cidrs, "mode": "STRICT"}, "manageForeign": "keep"}
    assert say("apply", "--config", "-", host=host, stdin=json.dumps(installed).encode()).code == 0
    before = {*host.files.texts, *host.files.links}
    typed = ("--config", "-", "--allow-removal", "--json")
    plan = say("plan", *typed, host=host, stdin=json.dumps(wanted).encode()).json
    files = say("apply", *typed, host=host, stdin=json.dumps(wanted).encode()).json["files"]
    assert (files["write"], files["remove"]) == (plan["writes"], plan["removes"])
    gone = before - {*host.files.texts, *host.files.links}
    assert {*files["remove"]} == gone - {HostLayout.ok_path}
    assert (HostLayout.ok_path in gone) is (not cidrs)


def test_what_apply_would_not_mend() -> None:
    """If nothing escapes, a repair keeps what is in conflict; status proposes no apply that would
    fail, and names UNSAFE.
    """
    host, kernel = FakeHost(kernel=plain_vm()), plain_vm()
    routes = {"staticRoutes": {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}]}}
    text = json.dumps(routes | {"routeOverlap": {"expectedCidrs": ["172.16.0.0/17"]}}).encode()
    assert say("apply", "--config", "-", host=host, stdin=text).code == 0
    kernel.ip_route("add", Route.to("172.16.0.0/17", dev="eth0", gateway="10.0.0.7", protocol=4))
    host.files.modes[HostLayout.gate_path], held = 0o600, FakeHost(kernel=kernel, files=host.files)
    assert say("repair", host=held).json["staticRoutes"] == routes["staticRoutes"]
    kernel.add_rule(
        Rule(family=4, priority=10, action="prohibit", dst=Prefix.parse("172.16.3.0/24"))
    )
    said = say("status", host=held)
    assert ("UNSAFE: " in said.out, said.out.count("hostrouting apply --config")) == (True, 0)


def test_a_stopped_run() -> None:
    """After Ctrl-C the page says what was changed until then, and where to look for what to type."""
    host = FakeHost(kernel=FakeKernel())  # without a default route, so apply waits
    host.faults.meanwhile("snapshot", lambda: signal.raise_signal(signal.SIGINT), nth=2)
    waiting = {"staticRoutes": {"enabled": True, "routes": [{"destination": "9.0.0.0/8"}]}}
    said = say("apply", "--config", "-", host=host, stdin=json.dumps(waiting).encode())
    assert said.code == 130
    first, second, third, *_, last = said.lines
    assert first == "STOPPED: SIGINT; not everything was done"
    assert (second, third) == ("What this run has changed:", f"  wrote {HostLayout.config_path}")
    assert last == "To see how this host is now, and what to type: hostrouting status"


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
