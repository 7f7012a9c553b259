"""A private network namespace of the real kernel, configured with `ip`. Every command enters it, so
that nothing affects the host's own; packets can only reach other private ones.
"""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink.host import LINK, parts_of
from hostrouting.kernel.netlink.numbers import RTM_GETLINK, number_in
from hostrouting.kernel.netlink.socket import Netlink
from hostrouting.model.prefix import IP, Prefix, as_ip
from hostrouting.model.route import ROUTE_TYPES, NextHop, Route
from hostrouting.model.rule import Rule, RuleAction
from hostrouting.model.snapshot import Address, Link, Snapshot
from tests.support.children import enter_namespaces, leave_network
from tests.support.programs import completed
from tests.support.waiting import wait_for

_PROTOCOLS = {"1": "icmp", "6": "tcp", "17": "udp", "58": "ipv6-icmp"}
_PORTS = (("sport", "sport"), ("dport", "dport"), ("tun_id", "tun_id"))
_ACTIONS: dict[str, RuleAction] = {
    "1": "to_table",
    "6": "blackhole",
    "7": "unreachable",
    "8": "prohibit",
}
_IFF_LOWER_UP = 0x10000
_IFLA_OPERSTATE = 16
_SETTLED_STATES = {0, 6}  # unknown, which is all that some devices say, and up
_IFA_F_NODAD = 0x02
_RTF_LOCAL = 0x8000_0000
# The first of two values counts: `ip` writes the "dst" of an encapsulation behind a route's own.
_DECODER = json.JSONDecoder(object_pairs_hook=lambda pairs: dict(reversed(pairs)))

_SETTINGS = {
    "ipv4/nexthop_compat_mode": 1,
    "ipv4/conf/all/ignore_routes_with_linkdown": 0,
    "ipv4/conf/default/ignore_routes_with_linkdown": 0,
    "ipv6/conf/all/forwarding": 0,
    "ipv6/conf/default/accept_dad": 1,
    "ipv6/conf/default/accept_ra": 1,
    "ipv6/conf/default/addr_gen_mode": 0,
    "ipv6/conf/all/disable_ipv6": 0,
    "ipv6/conf/default/ignore_routes_with_linkdown": 0,
    "ipv6/conf/default/use_tempaddr": 0,
}
"""What changes routes or addresses by itself, under /proc/sys/net, with the defaults of Linux."""
HASH_SEED = os.environ.get("HOSTROUTING_HASH_SEED")
"""The seed of the hash by which Linux chooses one of several next hops; else it makes one up."""
if HASH_SEED:
    _SETTINGS["ipv4/fib_multipath_hash_seed"] = int(HASH_SEED)


@contextmanager
def private_namespace() -> "Iterator[Namespace]":
    """Create a namespace. It is removed at the end of the block, or when this process ends."""
    # An open file keeps it, which programs do not inherit; a process would cost as much as they do.
    home = _open_this_network()
    leave_network()
    made = _open_this_network()
    enter_namespaces(f"/proc/self/fd/{home}")
    try:
        assert os.fstat(made).st_ino != os.fstat(home).st_ino
        namespace = Namespace(f"/proc/{os.getpid()}/fd/{made}")
        namespace.forget_the_hosts_settings()
        yield namespace
    finally:
        os.close(made)
        os.close(home)


def _open_this_network() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _rows_of(name: str) -> list[list[str]]:
    """The words of each line of a file under /proc/net, in the namespace of this thread."""
    lines = Path(f"/proc/thread-self/net/{name}").read_text().splitlines()
    return [line.split() for line in lines]


class Namespace:
    def __init__(self, path: str) -> None:
        self.path = path
        self.enter: tuple[str, ...] = ("nsenter", f"--net={path}")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Until the block ends, this thread is there, and so are its new sockets and processes."""
        home = _open_this_network()
        try:
            enter_namespaces(self.path)
            yield
        finally:
            enter_namespaces(f"/proc/self/fd/{home}")
            os.close(home)

    def ip(self, *arguments: str, lines: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run `ip`; `lines` are its standard input, for `-batch -`."""
        return self._program(
            "ip", *arguments, input="".join(f"{line}\n" for line in lines), timeout=200
        )

    def batch(
        self, lines: Iterable[str], *, family: int | None = None, force: bool = False
    ) -> None:
        """Run `ip` commands; if one fails, raise an error, unless told to continue."""
        options = [f"-{family}"] * bool(family) + ["-force"] * force
        lines = tuple(lines)
        done = self.ip(*options, "-batch", "-", lines=lines)
        if done.returncode and not force:
            raise RuntimeError(done.stderr)
        changes_links = any(line.startswith("link ") for line in lines)
        if changes_links or any(line.endswith(" nodad") for line in lines):
            self.settle()

    def settle(self) -> None:
        """Wait until the kernel uses new carriers and IPv6 addresses, also of another's end."""
        wait_for("the kernel to use new carriers and IPv6 addresses", self._is_settled)

    def _is_settled(self) -> bool:
        """Whether every carrier is reported, and every IPv6 address without a test for duplicates
        has its local route: both come a little later. `ip` would take as long as most commands.
        """
        with self.inside():
            with closing(Netlink()) as netlink:
                listed = [*netlink.dump(RTM_GETLINK, bytes(LINK.size))]
            addresses = _rows_of("if_inet6")
            routes = _rows_of("ipv6_route")
        with_carrier: set[int] = set()
        for message in listed:
            (_, index, flags), attributes = parts_of(message, LINK)
            if not flags & _IFF_LOWER_UP:
                continue
            if number_in(attributes, _IFLA_OPERSTATE) not in _SETTLED_STATES:
                return False
            with_carrier.add(index)
        delivered = {route[0] for route in routes if int(route[8], 16) & _RTF_LOCAL}
        for address, index_in_hex, _, _, flags_in_hex, _ in addresses:
            has_carrier = int(index_in_hex, 16) in with_carrier
            is_without_test = int(flags_in_hex, 16) & _IFA_F_NODAD
            if has_carrier and is_without_test and address not in delivered:
                return False
        return True

    def sysctl(self, path: str, value: int) -> None:
        self._set({path: value})

    def forget_the_hosts_settings(self) -> None:
        """Set what net.core.devconf_inherit_init_net may hand on, as Linux has it."""
        self._set(_SETTINGS)

    def _set(self, settings: dict[str, int]) -> None:
        with self.inside():
            for path, value in settings.items():
                Path(f"/proc/sys/net/{path}").write_text(f"{value}\n")

    def run(
        self, *command: str, text: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the namespace, with this input and these variables, too."""
        return self._program(*command, input=text, env={**os.environ, **environment}, timeout=60)

    def _program(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program, which starts in the namespace: nsenter would take as long."""
        with self.inside():
            return completed(words, **options)

    def snapshot(self) -> Snapshot:
        """The whole host, as netlink lists it, and not `ip`."""
        with self.inside(), NetlinkBackend() as backend:
            return backend.snapshot()

    def links(self) -> tuple[Link, ...]:
        return tuple(map(_link, json.loads(self.ip("-N", "-j", "-d", "link").stdout)))

    def addresses(self) -> tuple[Address, ...]:
        done = self.ip("-N", "-j", "address")
        addresses: list[Address] = []
        for link in json.loads(done.stdout):
            addresses += [_address(entry, link["ifname"]) for entry in link["addr_info"]]
        return tuple(addresses)

    def routes(self, family: int) -> tuple[Route, ...]:
        done = self.ip(f"-{family}", "-N", "-j", "-d", "route", "show", "table", "all")
        return tuple(_route(entry, family) for entry in _DECODER.decode(done.stdout or "[]"))

    def rules(self, family: int) -> tuple[Rule, ...]:
        done = self.ip(f"-{family}", "-N", "-j", "-d", "rule", "show")
        return tuple(_rule(entry, family) for entry in json.loads(done.stdout or "[]"))

    def get(self, family: int, queries: Iterable[str]) -> list[Route | str]:
        """For each query of `ip route get fibmatch`, the route, or the kernel's message."""
        lines = [f"route get fibmatch {query}" for query in queries]
        done = self.ip(f"-{family}", "-force", "-N", "-j", "-d", "-batch", "-", lines=lines)
        errors: dict[int, str] = {}
        said = ""
        for line in done.stderr.splitlines():
            if line.startswith("Command failed"):
                errors[int(line.rpartition(":")[2])] = said
            said = line.removeprefix("RTNETLINK answers: ")
        found, text = [], done.stdout.strip()
        while text:
            (entry,), end = _DECODER.raw_decode(text)
            found.append(_route(entry, family))
            text = text[end:].strip()
        answers = iter(found)
        return [errors[at] if at in errors else next(answers) for at in range(1, len(lines) + 1)]


def _link(entry: dict[str, Any]) -> Link:
    return Link(
        name=entry["ifname"],
        index=entry["ifindex"],
        kind=entry.get("linkinfo", {}).get("info_kind", ""),
        type=int(entry["link_type"].strip("[]")),
        up="UP" in entry["flags"],
        master=entry.get("master"),
    )


def _address(entry: dict[str, Any], dev: str) -> Address:
    return Address(
        ip=as_ip(entry["local"]),
        length=entry["prefixlen"],
        dev=dev,
        scope=int(entry["scope"]),
        peer=_ip(entry.get("address")),
    )


def _ip(text: str | None) -> IP | None:
    return as_ip(text) if text else None


def _next_hops(entry: dict[str, Any]) -> tuple[NextHop, ...]:
    if "nexthops" in entry:
        return tuple(map(_next_hop, entry["nexthops"]))
    return (_next_hop(entry),) if "dev" in entry else ()


def _next_hop(entry: dict[str, Any]) -> NextHop:
    flags = entry.get("flags", [])
    return NextHop(
        entry.get("dev"),
        gateway=_ip(entry.get("gateway") or entry.get("via", {}).get("host")),
        weight=entry.get("weight", 1),
        onlink="onlink" in flags,
        linkdown="linkdown" in flags,
        dead="dead" in flags,
    )


def _route(entry: dict[str, Any], family: int) -> Route:
    kind = ROUTE_TYPES[int(entry.get("type", 1))]
    (metrics,) = entry.get("metrics") or [{}]
    prefix = Prefix(family, 0, 0)
    if entry["dst"] not in {"default", "all"}:
        prefix = Prefix.parse(entry["dst"])
    next_hops = _next_hops(entry)
    hops = [entry, *entry.get("nexthops", ())]
    if kind in {"blackhole", "unreachable", "prohibit", "throw"}:
        next_hops = ()
    return Route(
        prefix,
        next_hops,
        table=int(entry.get("table", 254)),
        metric=entry.get("metric", 0),
        tos=int(str(entry.get("tos", 0)), 16),
        type=kind,
        scope=int(entry.get("scope", 0)),
        protocol=int(entry.get("protocol", 0)),
        prefsrc=_ip(entry.get("prefsrc")),
        mtu=metrics.get("mtu"),
        advmss=metrics.get("advmss"),
        nexthop_id=entry.get("nhid"),
        source=Prefix.parse(f"{entry['from']}") if "from" in entry else None,
        preference=entry.get("pref", "medium"),
        # `ip` shows whole seconds: 0 just before a route expires, and just after.
        expired=entry["expires"] <= 0 if "expires" in entry else None,
        unread=tuple(sorted({f"encap {hop['encap']}" for hop in hops if "encap" in hop})),
    )


def _rule(entry: dict[str, Any], family: int) -> Rule:
    def block(name: str) -> Prefix | None:
        if entry.get(name, "all") == "all":
            return None
        length = entry.get(f"{name}len", 32 if family == 4 else 128)
        return Prefix.of(ip_network(f"{entry[name]}/{length}", strict=False))

    action = _ACTIONS.get(entry.get("action", "1"), "blackhole")
    if "goto" in entry:
        action = "goto"
    elif "nop" in entry:
        action = "nop"
    marked = "fwmark" in entry
    return Rule(
        family=family,
        priority=entry["priority"],
        action=action,
        table=int(entry.get("table", 0)),
        target=entry.get("goto"),
        l3mdev="l3mdev" in entry,
        invert="not" in entry,
        src=block("src"),
        dst=block("dst"),
        iif=entry.get("iif"),
        others=tuple(_others(entry)),
        fwmark=int(entry.get("fwmark", "0"), 16),
        fwmask=int(entry.get("fwmask", "0xffffffff"), 16) if marked else 0,
        suppress_prefixlength=entry.get("suppress_prefixlen"),
        suppress_ifgroup=int(entry["suppress_ifgroup"]) if "suppress_ifgroup" in entry else None,
    )


def _others(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The selectors that a rule has as text, in the words and in the order of `ip rule`."""
    for word, key in (
        ("tos", "tos"),
        ("oif", "oif"),
        ("uidrange", "uid"),
        ("ipproto", "ipproto"),
        *_PORTS,
    ):
        if key in entry:
            text = str(entry[key]).removeprefix("ipproto-")
            yield word, _PROTOCOLS.get(text, text) if word == "ipproto" else text
        elif f"{key}_start" in entry:
            first, last = entry[f"{key}_start"], entry[f"{key}_end"]
            yield word, f"{first}" if first == last and word != "uidrange" else f"{first}-{last}"
