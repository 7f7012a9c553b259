"""check-route-overlap.sh, run in a private namespace with a /run of its own, and the engine's check
of the same host.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from hostrouting.boot.scripts import render_check_script
from hostrouting.check.check import check_snapshot
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.prefix import IPV6, Prefix, ip_at
from tests.support.awks import AWKS, put_before
from tests.support.explaining import on_failure, output_of
from tests.support.sections import expect
from tests.support.systemd import THIS_HOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from hostrouting.check.results import CheckReport
    from hostrouting.model.snapshot import Link, Snapshot
    from tests.support.namespace import Namespace

__all__ = ["Checked", "EnginesCheck", "check", "command", "dressed", "showing"]

_STATE = "aks-flex-node"
_LINE = re.compile(  # the dash between two addresses is \u2013
    r"([A-Z-]+): expected CIDR (?P<cidr>\S+) "
    r"\((?P<first>[^\u2013)]+)(\u2013(?P<last>[^)]+))?\) "
    r"(routes via (?P<devs>.*) \[)?"
)

_OWN_TYPES = {"local", "anycast", "broadcast", "multicast"}
# Both leave these out if no route or rule refuses them.
_OWN = tuple(
    map(
        Prefix.parse,
        ("0.0.0.0/32", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "fe80::/10", "ff00::/8"),
    )
)
# By the verdict of the script: those that the engine may have.
_NOT_OK = {"undecided", "overlap", "no-default-route"}
_RIGHT = {
    "ok": {"ok", "undecided"},
    "undecided": {"ok", *_NOT_OK},
    "overlap": _NOT_OK,
    "no-default-route": _NOT_OK,
}


class Range(NamedTuple):
    """Addresses that escape by the same devices; by none if they are refused."""

    cidr: str
    first: int
    last: int
    devs: frozenset[str]


def check(*cidrs: str, mode: str = "STRICT", **options: Any) -> HostRoutingConfig:
    """A configuration that checks these."""
    return HostRoutingConfig(
        route_overlap=expect(*(cidrs or ["172.16.0.0/16"]), mode=mode, **options)
    )


def command(script: Path, *arguments: str, before: str = "") -> list[str]:
    """The command that runs a script as the gate does, in mounts of its own: `run` beside the
    script is its /run.
    """
    run = script.parent / "run"
    (run / "hostrouting").mkdir(parents=True, exist_ok=True)
    # A shell that starts in half the time is enough, unless the test has commands of its own.
    shell = "bash" if before else "sh"
    as_the_gate = """exec /bin/bash -pc '. "$0"; exit 1' "$@" """
    text = f"mount --bind {run} /run && {{ {before or ':'}; }} && {as_the_gate}"
    return ["unshare", "--mount", shell, "-c", text, "gate", str(script), *arguments]


def showing(links: Mapping[str, tuple[int, str]]) -> str:
    """An `ip` that lists these veths with the link types and kinds of the devices that they stand
    in for.
    """
    edits = [
        rf"/^[0-9]+: {name}[@:]/s,link/\[1\](.*)\\ +veth,link/[{number}]\1"
        + (rf"\\ {kind}," if kind else ",")
        for name, (number, kind) in links.items()
    ]
    # With -force, the script asks about addresses: no link is listed.
    return f"""\
[[ " $* " != *" -force "* ]] || exec ip "$@"
ip "$@" 2>&1 | sed -uE '{";".join(edits)}'
exit $PIPESTATUS"""


def dressed(snapshot: Snapshot, kinds: Mapping[str, tuple[int, str]]) -> Snapshot:
    """The snapshot of such a host, in which each device has the link type and the kind that it
    stands in for.
    """
    links: list[Link] = []
    for link in snapshot.links:
        number, kind = kinds.get(link.name, (link.type, link.kind))
        links.append(link._replace(type=number, kind=kind))
    return snapshot._replace(links=tuple(links))


class Checked:
    """One run of the script: its exit status, what it said, and the markers that it left."""

    def __init__(
        self,
        namespace: Namespace,
        config: HostRoutingConfig,
        directory: Path,
        *,
        unit: str = "kubelet.service",
        wait: int = 0,
        awk: str = AWKS[0],
        tree: Path = THIS_HOST,
        tools: Mapping[str, str] | None = None,
        before: str = "",
    ) -> None:
        """Render and run the script. `tools` replace programs; `before` is done first, in the
        mounts of the run.
        """
        script = directory / "check.sh"
        script.write_text(
            put_before(render_check_script(config), directory, tools, awk=awk, tree=tree)
        )
        done = namespace.run(*command(script, unit, str(wait), before=before))
        self.status, self.said = done.returncode, done.stderr
        on_failure("the last run of check-route-overlap.sh", lambda: output_of(done))
        state = directory / "run" / _STATE
        self.left = {path.name: path.read_text() for path in sorted(state.glob("*"))}
        self.verdict = self.said.rpartition("check-route-overlap: ")[2].strip()

    @property
    def lines(self) -> list[str]:
        """The lines about what is wrong, all of them: the journal has the first."""
        return self.left.get("route-overlap.detected", "").splitlines()

    @property
    def escapes(self) -> frozenset[Range]:
        """The ranges of its lines."""
        ranges: list[Range] = []
        for line in self.lines:
            match = _LINE.match(line)
            if match is None:
                continue
            first, last = match["first"], match["last"] or match["first"]
            devs = match["devs"].split(", ") if match["devs"] else []
            ranges.append(Range(match["cidr"], _place(first), _place(last), frozenset(devs)))
        return frozenset(ranges)


@attrs.frozen
class EnginesCheck:
    """What the engine says of the same host."""

    verdict: str
    escapes: tuple[Range, ...]
    cidrs: tuple[Prefix, ...]
    own: tuple[Prefix, ...]
    """The host's own addresses: they may or may not be parts of a range."""
    is_certain: bool
    """See `_is_certain`."""

    @classmethod
    def of(cls, snapshot: Snapshot, config: HostRoutingConfig) -> EnginesCheck:
        """The check of what the host itself sends: the script says nothing of pods."""
        config = config._replace(route_overlap=config.route_overlap._replace(pod_cidrs=()))
        report = check_snapshot(snapshot, config)
        own_types = [route.prefix for route in snapshot.routes if route.type in _OWN_TYPES]
        own = [*_OWN, *(prefix for prefix in own_types if prefix.first == prefix.last)]
        return cls(
            report.verdict,
            tuple(
                Range(str(escape.cidr), escape.first, escape.last, frozenset(escape.devs))
                for escape in report.escapes
            ),
            tuple(map(Prefix.of, config.route_overlap.cidrs)),
            tuple(own),
            is_certain=_is_certain(snapshot, report),
        )

    def broken_laws(self, checked: Checked) -> list[str]:
        """What the verdict of the script breaks of its two laws."""
        if self.verdict in _RIGHT.get(checked.verdict, ()):
            return []
        return [f"the script answers {checked.verdict}, and the check {self.verdict}"]

    def objections(self, checked: Checked) -> list[str]:
        """The laws that are broken; and where the ranges of the script differ,
        if it has no doubts.
        """
        objections = self.broken_laws(checked)
        both_overlap = checked.verdict == self.verdict == "overlap"
        if both_overlap and self.is_certain and "UNDECIDED" not in checked.said:
            for cidr in self.cidrs:
                objections += self._differences(checked, cidr)
        return objections

    def _differences(self, checked: Checked, cidr: Prefix) -> Iterator[str]:
        """The addresses of a CIDR that escape in one of both checks alone, or by other devices; the
        ends of ranges are compared.

        The script names a range in each CIDR that has it, and the engine in the widest.
        """
        here = [escape for escape in self.escapes if (":" in escape.cidr) == (cidr.family == IPV6)]
        there = [escape for escape in checked.escapes if escape.cidr == str(cidr)]
        for address in _borders([*here, *there], cidr):
            if self._is_own(cidr.family, address):
                continue
            ours = _devs_at(here, address)
            theirs = _devs_at(there, address)
            if ours is None and theirs is None:
                continue
            # Of equal IPv6 default routes the script names the one that Linux uses, and the engine
            # all.
            if ours is not None and theirs is not None and theirs <= ours:
                continue
            yield (
                f"{ip_at(cidr.family, address)} in {cidr}: {_spoken(theirs)} in the script, "
                f"{_spoken(ours)} in the check"
            )

    def _is_own(self, family: int, address: int) -> bool:
        """Whether the address is the host's own."""
        blocks = [block for block in self.own if block.family == family]
        return any(block.first <= address <= block.last for block in blocks)


def _is_certain(snapshot: Snapshot, report: CheckReport) -> bool:
    """Whether both find the same ranges.

    The script takes a next hop that is dead for one that may be used, and asks Linux, which knows
    what a goto does.
    """
    for route in snapshot.routes:
        if any(hop.dead for hop in route.next_hops):
            return False
    for family in report.families:
        if any(doubt.name == "not-judged" for doubt in family.doubts):
            return False
    return True


def _borders(ranges: list[Range], cidr: Prefix) -> list[int]:
    """The addresses of the CIDR at the ends of these ranges, and beside them."""
    borders: set[int] = set()
    for escape in ranges:
        for end in (escape.first, escape.last):
            borders |= {end - 1, end, end + 1}
    return sorted(border for border in borders if cidr.first <= border <= cidr.last)


def _devs_at(ranges: list[Range], address: int) -> frozenset[str] | None:
    """The devices by which the address escapes; None if it does not."""
    around = [escape.devs for escape in ranges if escape.first <= address <= escape.last]
    return frozenset().union(*around) if around else None


def _spoken(devs: frozenset[str] | None) -> str:
    if devs is None:
        return "is fine"
    return f"escapes by {', '.join(sorted(devs)) or 'no device'}"


def _place(address: str) -> int:
    return int(ip_address(address))
