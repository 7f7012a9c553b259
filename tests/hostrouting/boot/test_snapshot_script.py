"""snapshot.sh, run in private namespaces: the document that it prints is what netlink says of the same host."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.boot.scripts import render_snapshot_script
from hostrouting.errors import InputError
from hostrouting.host.saved import read_ip_document
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import as_ip
from hostrouting.model.route import NextHop
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from tests.support.awks import TREES
from tests.support.cases import some_at_night
from tests.support.cli import say
from tests.support.commands import LINKS, furnish, route_command, rule_command
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.posix_shells import SHELLS
from tests.support.rawkernel import raw_kernel
from tests.support.strategies import blocks, routes, rules
from tests.support.systemd import THIS_HOST

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

CIDRS = ("10.0.0.0/8", "172.16.0.0/12", "0.0.0.0/0")
each_tree = pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name or "this host")


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """eth0 with 10.0.0.4/24 and fd00:99::4/64, and three devices without addresses."""
    with private_namespace() as made:
        furnish(made, LINKS, set())
        yield made


def command(tree: Path) -> list[str]:
    """The shell of a tree, with the programs of that tree."""
    return ["sh"] if tree == THIS_HOST else ["chroot", str(tree), "sh"]


def taken(namespace: Namespace, shell: list[str]) -> bytes:
    """The document that the script prints there; nothing else is printed."""
    done = subprocess.run(
        [*namespace.enter, *shell],
        input=render_snapshot_script().encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def of_netlink(path: str) -> Snapshot:
    """The snapshot of the netlink backend."""
    with NetlinkBackend(netns=path) as backend:
        return backend.snapshot()


@settings(max_examples=scaled(12), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_of_any_host(tmp_path: Path, data: st.DataObject) -> None:
    """On any host, with any shell and any version of ip, the snapshot is the netlink backend's; so is each verdict."""
    wanted = []
    for family in (4, 6):
        block = data.draw(blocks(family))
        batch = [*map(route_command, data.draw(st.lists(routes(block), max_size=12)))]
        batch += map(rule_command, data.draw(st.lists(rules(block), max_size=4, unique_by=lambda it: it.priority)))
        wanted.append((family, batch))
    lost = data.draw(st.sets(st.sampled_from(["ib0", "wg0"])))
    shell = data.draw(st.sampled_from([*SHELLS, *(command(tree) for tree in TREES[1:])]))
    with private_namespace() as namespace:
        furnish(namespace, LINKS, lost)
        for family, batch in wanted:
            namespace.batch(batch, force=True, family=family)
        for dev in ("eth1", "all", "default"):
            namespace.sysctl(f"ipv4/conf/{dev}/rp_filter", data.draw(st.integers(0, 2)))
            namespace.sysctl(f"ipv4/conf/{dev}/forwarding", data.draw(st.integers(0, 1)))
        for dev in data.draw(st.sets(st.sampled_from(["eth0", "eth1", "all"]))):
            for name in data.draw(st.sets(st.sampled_from(["accept_local", "route_localnet", "src_valid_mark"]))):
                namespace.sysctl(f"ipv4/conf/{dev}/{name}", 1)
        document, expected = taken(namespace, shell), of_netlink(namespace.path)
    assert read_ip_document(document) == expected
    (tmp_path / "ip.json").write_bytes(document)
    (tmp_path / "own.json").write_text(expected.to_json(), encoding="utf-8")
    ours, theirs = (say("check", "--json", *CIDRS, "--snapshot", str(tmp_path / it)) for it in ("own.json", "ip.json"))
    assert theirs == ours


@each_tree
@pytest.mark.parametrize("compat", [1, 0])
def test_says_it_in_detail(namespace: Namespace, tree: Path, compat: int) -> None:
    """Fields that ip's JSON omits or prints twice are read as netlink reads them; so are next hop objects."""
    namespace.batch(
        [
            "nexthop add id 5 via 10.0.0.9 dev eth0",
            "nexthop add id 6 via 10.0.0.8 dev eth0",
            "nexthop add id 7 group 5,3/6,40",
            "nexthop add id 8 blackhole",
            "nexthop add id 9 via 8.8.8.8 dev ib0 onlink",
            "route add 1.0.0.0/8 nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0 weight 256",
            "route add 2.0.0.0/8 via inet6 fe80::1 dev eth0 mtu lock 1400 advmss 1300 realm 3/4 initcwnd 10 congctl cubic",
            "route add 3.0.0.0/8 nhid 7",
            "route add 3.1.0.0/16 nhid 8",
            "route add 3.2.0.0/16 nhid 9",
            "route add 4.0.0.0/8 via 8.8.8.8 dev ib0 onlink src 10.0.0.4 metric 4294967295 tos 0x10 table 70000",
            "route add 5.0.0.0/8 encap ip id 5 dst 10.0.0.3 tos 8 dev eth0",
            "route add blackhole 6.0.0.0/8 proto 213",
            "address add 10.9.9.9 peer 10.9.9.10/32 dev ib0",
            "address add 10.9.8.1/24 dev ib0 metric 77 noprefixroute valid_lft 500 preferred_lft 300",
        ]
    )
    namespace.batch(
        ["route add 2001::/16 via fe80::1 dev eth0 pref high expires 500", "route add unreachable 2002::/16"], family=6
    )
    namespace.sysctl("ipv4/nexthop_compat_mode", compat)
    found, expected = read_ip_document(taken(namespace, command(tree))), of_netlink(namespace.path)
    assert found == expected
    by_prefix = {str(route.prefix): route for route in found.routes}
    expiring = by_prefix["2001::/16"]
    assert (expiring.preference, 0 < (expiring.expires or 0) <= 500) == ("high", True)
    assert by_prefix["5.0.0.0/8"].unread == ("encap",)
    assert by_prefix["3.0.0.0/8"].legs == (
        NextHop("eth0", gateway=as_ip("10.0.0.9"), weight=3),
        NextHop("eth0", gateway=as_ip("10.0.0.8"), weight=40),
    )


@each_tree
def test_odd_names(namespace: Namespace, tree: Path) -> None:
    """Names with quotes, a control character or bytes that are not UTF-8 are read as netlink reads them."""
    names = [b"we'i\"r\\d\\'", b"x\xff\x01y", "ä".encode()]
    for name in names:
        subprocess.run([*namespace.enter, "ip", "link", "add", name, "type", "bridge"], check=True, timeout=30)
    subprocess.run([*namespace.enter, "ip", "link", "set", "ib0", "master", names[1]], check=True, timeout=30)
    found, expected = read_ip_document(taken(namespace, command(tree))), of_netlink(namespace.path)
    assert [link.name for link in found.links] == [link.name for link in expected.links]
    assert {link.master for link in found.links} == {None, "x\\xff\x01y"}


def test_a_rule_by_an_alternative_name(namespace: Namespace) -> None:
    """It is read as netlink reads it. Kills: the name is that of no device."""
    namespace.batch(["link property add dev lo altname loop0", "rule add pref 100 iif loop0 lookup 100"])
    found, expected = read_ip_document(taken(namespace, ["sh"])), of_netlink(namespace.path)
    assert found.rules == expected.rules
    assert ("iif-altname", "loop0") in [other for rule in found.rules for other in rule.others]


def test_a_device_that_is_down(namespace: Namespace) -> None:
    """A device that is down is read as one without a carrier, because ip does not distinguish them."""
    namespace.batch(["link add br0 type bridge", "link set wg0 down"])
    found, expected = read_ip_document(taken(namespace, ["sh"])), of_netlink(namespace.path)
    assert found == attrs.evolve(
        expected, links=tuple(attrs.evolve(link, carrier=link.carrier and link.up) for link in expected.links)
    )
    assert found != expected


def test_the_other_end_elsewhere(namespace: Namespace) -> None:
    """A veth's other end in another namespace, and a port's bridge, are reported."""
    with private_namespace() as other:
        pid = other.path.split("/")[2]
        namespace.batch(["link add br0 up type bridge", "link set eth1 master br0", f"link set peer-wg0 netns {pid}"])
        # The bridge gets its carrier, and with it routes, a little later.
        while True:
            before, document, after = of_netlink(namespace.path), taken(namespace, ["sh"]), of_netlink(namespace.path)
            if before == after:
                break
        assert read_ip_document(document) == after


@each_tree
@pytest.mark.parametrize("family", [4, 6])
def test_selectors_that_ip_does_not_know(tree: Path, family: int) -> None:
    """A rule with a selector that is newer than ip is never read as one for all packets."""
    others = [("tun_id", "5"), ("sport", "0x5/0xff")] + [("flowlabel", "0x0/0xff")] * (family == 6)
    rules = [Rule(family=family, priority=1 + at, table=100, others=(it,)) for at, it in enumerate(others)]
    rules += [Rule(family=family, priority=200, table=100, iif="lo", dscp=(2, 3), protocol=3)]
    with raw_kernel() as kernel:
        assert [kernel.add_rule(rule).errno for rule in rules] == [0] * len(rules)
        enter = ["nsenter", f"--net={kernel.path}"]
        done = subprocess.run(
            [*enter, *command(tree)],
            input=render_snapshot_script().encode(),
            capture_output=True,
            check=True,
            timeout=30,
        )
        expected = of_netlink(kernel.path)
    assert read_ip_document(done.stdout).rules == expected.rules
    assert sum(rule.table == 100 for rule in expected.rules) == len(rules)


def test_without_root(namespace: Namespace) -> None:
    """Without any right, and without a usual PATH, it prints the same, so it changes nothing."""
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "PATH=/nowhere", "/bin/sh"]
    assert read_ip_document(taken(namespace, nobody)) == of_netlink(namespace.path)


VERSION = subprocess.run(["ip", "-V"], capture_output=True, text=True, check=True).stdout.strip()
TOO_OLD = f"iproute2 5.3 or newer is needed, and this is {VERSION}"
CHANGING = "the routing changed during each of 8 attempts to read it; try again when it changes less"
INTERRUPTED = 'echo "Dump was interrupted and may be inconsistent." >&2'


def with_ip(body: str, tmp_path: Path, namespace: Namespace | None = None) -> subprocess.CompletedProcess[str]:
    """What the script says where `ip` is this body of a shell script, which can call $REAL."""
    program = tmp_path / "ip"
    program.write_text(f"#!/bin/sh\nREAL={shutil.which('ip')}\n{body}\n")
    program.chmod(0o755)
    if namespace is not None:
        return namespace.run("sh", text=render_snapshot_script(), PATH=f"{tmp_path}:{os.environ['PATH']}")
    with private_namespace() as made:
        return with_ip(body, tmp_path, made)


# What `ip` does instead, and what the script says then.
FAILURES = {
    "no ip": ("exit 127", "this host does not have the ip of iproute2; install iproute2"),
    "busybox": ('exec busybox ip "$@"', "this host does not have the ip of iproute2; install iproute2"),
    "old": (
        'case "$*" in -N*) echo \'Option "-N" is unknown\' >&2; exit 255 ;; esac; exec $REAL "$@"',
        f"{TOO_OLD}: the command 'ip -N -j -d link show' failed: Option \"-N\" is unknown",
    ),
    "older": (
        'test "$*" = "-N -j -d nexthop show" || exec $REAL "$@"; echo \'Object "nexthop" is unknown\' >&2; exit 1',
        f"{TOO_OLD}: the command 'ip -N -j -d nexthop show' failed: Object \"nexthop\" is unknown",
    ),
    "halfway": (
        '$REAL "$@"; case "$*" in *"-6 route save"*) printf "Error: half\\nof it\\n" >&2; exit 2 ;; esac',
        "the command 'ip -6 route save table all' failed: Error: half",
    ),
    "silent": (
        'case "$*" in *rule\\ save) exit 1 ;; esac; exec $REAL "$@"',
        "the command 'ip -4 rule save' failed: it does not say why",
    ),
    "restless": ('test "$1" = link && date +%N; exec $REAL "$@"', CHANGING),
    "interrupted": (f'case "$*" in *"route save"*) {INTERRUPTED} ;; esac; exec $REAL "$@"', CHANGING),
    "interrupted list": (f'case "$*" in *"nexthop show"*) {INTERRUPTED} ;; esac; exec $REAL "$@"', CHANGING),
}


@pytest.mark.parametrize("failure", some_at_night(FAILURES, each=2))
def test_fails_loudly(failure: str, tmp_path: Path) -> None:
    """If ip is missing or fails, or the routing does not stop changing, the script prints one line about it, and no more."""
    body, told = FAILURES[failure]
    done = with_ip(body, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"hostrouting snapshot: {told}\n")


def test_a_kernel_without_ipv6_and_next_hops(tmp_path: Path) -> None:
    """What this kernel does not have is empty."""
    words = 'case "$*" in -6*|*nexthop*) echo "RTNETLINK answers: Operation not supported" >&2; exit 2 ;; esac'
    done = with_ip(f'{words}; exec $REAL "$@"', tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert {rule.family for rule in read_ip_document(done.stdout.encode()).rules} == {4}


@pytest.mark.parametrize("sign", ["", "-"], ids=["before its end", "after it"])
def test_seconds_that_pass(tmp_path: Path, sign: str) -> None:
    """A route that expires counts as the same route while its seconds pass."""
    words = f'test "$1 $2" = "-6 route" && test "$3" = show && echo "fd00::/8 expires {sign}1$(date +%N)sec"'
    done = with_ip(f'{words}; exec $REAL "$@"', tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("when", "change", "missing"),
    [
        ("-4 route save", "nexthop replace id 5 via 10.0.0.77 dev eth0", "nothing"),
        # This device is down, so the address adds no route.
        ("-6 route save", "address add fd77::1/64 dev br9", "-4 netconf"),
        ("-6 route save", "route add 9.0.0.0/8 dev ib0", "nothing"),
    ],
    ids=["next hop object", "address", "route"],
)
def test_a_change_while_it_reads(namespace: Namespace, tmp_path: Path, when: str, change: str, missing: str) -> None:
    """Whatever changes once while it reads is in the document, also if the kernel does not have one of the lists."""
    namespace.sysctl("ipv4/nexthop_compat_mode", 0)
    namespace.batch(
        ["nexthop add id 5 via 10.0.0.9 dev eth0", "route add 3.0.0.0/8 nhid 5", "link add br9 type bridge"]
    )
    body = f"""
    case "$*" in
      "{when}"*) if ! test -e {tmp_path}/was; then : >{tmp_path}/was; $REAL {change}; fi ;;
      *"{missing}"*) echo "Operation not supported" >&2; exit 2 ;;
    esac
    exec $REAL "$@"
    """
    done = with_ip(body, tmp_path, namespace)
    assert (done.returncode, done.stderr) == (0, "")
    found, expected = read_ip_document(done.stdout.encode()), of_netlink(namespace.path)
    assert (found.addresses, found.routes) == (expected.addresses, expected.routes)


def test_one_interrupted_list(tmp_path: Path) -> None:
    """A list that was interrupted once is read again, and nothing is printed about it."""
    once = f"test -e {tmp_path}/was || {{ : >{tmp_path}/was; {INTERRUPTED}; }}"
    done = with_ip(f'case "$*" in *"rule save") {once} ;; esac; exec $REAL "$@"', tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_ip_document(done.stdout.encode()).rules


@pytest.mark.parametrize("missing", ["od", "tr", "sed", "head"])
def test_a_missing_program(namespace: Namespace, tmp_path: Path, missing: str) -> None:
    """On a host without one of the programs that it uses, one line names that program."""
    for tool in {"ip", "od", "tr", "sed", "head"} - {missing}:
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    script = render_snapshot_script().replace('PATH="$PATH:/usr/sbin:/usr/bin:/sbin:/bin"', f"PATH={tmp_path}")
    done = namespace.run("/bin/sh", text=script)
    told = f"hostrouting snapshot: the program {missing} is not installed; install it (every POSIX system has it)\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


def test_cut_short(namespace: Namespace) -> None:
    """Of a script whose end did not arrive, nothing is printed; a document without its end is refused."""
    done = namespace.run("sh", text=render_snapshot_script().rstrip("\n").rpartition("\n")[0])
    assert done.stdout == ""
    document = taken(namespace, ["sh"])
    for end in (0, len(document) // 2, len(document) - 3):
        with pytest.raises(InputError, match="this is not JSON"):
            read_ip_document(document[:end])
