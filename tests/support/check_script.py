"""check-route-overlap.sh, run in a private namespace with a /run of its own, and the engine's check
of the same host.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.boot.scripts import render_check_script
from hostrouting.check.check import check_snapshot
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.prefix import IPV6, Prefix, ip_at
from tests.support.awks import AWKS, put_before
from tests.support.sections import expect
from tests.support.systemd import THIS_HOST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hostrouting.model.snapshot import Link, Snapshot
    from tests.support.namespace import Namespace

__all__ = ["Checked", "EnginesCheck", "check", "command", "dressed", "showing"]

_STATE = "aks-flex-node"
_LINE = re.compile(  # the dash between two addresses is \u2013
    r"([A-Z-]+): expected CIDR (?P<cidr>\S+) \((?P<first>[^\u2013)]+)(\u2013(?P<last>[^)]+))?\) (routes via (?P<devs>.*) \[)?"
)

_OWN_TYPES = {"local", "anycast", "broadcast", "multicast"}
# Both leave these out if no route or rule refuses them.
_OWN = tuple(
    map(
        Prefix.parse,
        ("0.0.0.0/32", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "fe80::/10", "ff00::/8"),
    )
)
# What escapes: the CIDR, the first and the last address, and the devices by which they leave.
Escapes = frozenset[tuple[str, int, int, frozenset[str]]]


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
    text = f'mount --bind {run} /run && {{ {before or ":"}; }} && exec /bin/bash -pc \'. "$0"; exit 1\' "$@"'
    return ["unshare", "--mount", "bash", "-c", text, "gate", str(script), *arguments]


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
    """The snapshot of such a host, in which each device has the link type and the kind that it stands in for."""
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
        state = directory / "run" / _STATE
        self.left = {path.name: path.read_text() for path in sorted(state.glob("*"))}
        self.verdict = self.said.rpartition("check-route-overlap: ")[2].strip()

    @property
    def lines(self) -> list[str]:
        """The lines about what is wrong, all of them: the journal has the first."""
        return self.left.get("route-overlap.detected", "").splitlines()

    @property
    def escapes(self) -> Escapes:
        """The ranges of its lines."""
        return frozenset(
            (
                it["cidr"],
                _place(it["first"]),
                _place(it["last"] or it["first"]),
                frozenset(filter(None, (it["devs"] or "").split(", "))),
            )
            for line in self.lines
            if (it := _LINE.match(line))
        )


@attrs.frozen
class EnginesCheck:
    """What the engine says of the same host."""

    verdict: str
    escapes: Escapes
    cidrs: tuple[Prefix, ...]
    own: tuple[Prefix, ...]
    """The host's own addresses: they may or may not be parts of a range."""
    is_certain: bool
    """Whether all next hops have a carrier: the script takes one that has none for one that may be
    used; and whether all is judged: Linux knows what a goto does."""

    @classmethod
    def of(cls, snapshot: Snapshot, config: HostRoutingConfig) -> EnginesCheck:
        """The check of what the host itself sends: the script says nothing of pods."""
        config = config._replace(route_overlap=config.route_overlap._replace(pod_cidrs=()))
        report = check_snapshot(snapshot, config)
        prefixes = [(route.prefix, route.type) for route in snapshot.routes]
        return cls(
            report.verdict,
            frozenset(
                (str(it.cidr), it.first, it.last, frozenset(it.devs)) for it in report.escapes
            ),
            tuple(map(Prefix.of, config.route_overlap.cidrs)),
            (*_OWN, *(to for to, kind in prefixes if kind in _OWN_TYPES and to.first == to.last)),
            not any(hop.dead for route in snapshot.routes for hop in route.next_hops)
            and not any(
                doubt.name == "not-judged" for family in report.families for doubt in family.doubts
            ),
        )

    def broken_laws(self, checked: Checked) -> list[str]:
        """What the verdict of the script breaks of its two laws."""
        refusing = {"undecided", "overlap", "no-default-route"}
        right = {"ok": {"ok", "undecided"}, "undecided": {"ok", *refusing}, "overlap": refusing}
        right["no-default-route"] = refusing
        is_right = self.verdict in right.get(checked.verdict, ())
        return (
            []
            if is_right
            else [f"the script answers {checked.verdict}, and the check {self.verdict}"]
        )

    def objections(self, checked: Checked) -> list[str]:
        """The laws that are broken; and where the ranges of the script differ, if it has no doubts."""
        compared = (
            checked.verdict == self.verdict == "overlap"
            and "UNDECIDED" not in checked.said
            and self.is_certain
        )
        return [*self.broken_laws(checked), *(self._differences(checked) if compared else ())]

    def _differences(self, checked: Checked) -> list[str]:
        """The addresses that escape in one of both checks alone, or by other devices; the ends of
        ranges are compared.

        The script names a range in each CIDR that has it, and the engine in the widest. Of equal
        IPv6 default routes the script names the one that Linux uses, and the engine all.
        """
        differing = []
        for cidr in self.cidrs:
            ours = [
                (first, last, devs)
                for of, first, last, devs in self.escapes
                if (":" in of) == (cidr.family == IPV6)
            ]
            theirs = [
                (first, last, devs) for of, first, last, devs in checked.escapes if of == str(cidr)
            ]
            ends = {
                end + step for *both, _ in (*ours, *theirs) for end in both for step in (-1, 0, 1)
            }
            differing += [
                f"{ip_at(cidr.family, address)} in {cidr}: {_spoken(there)} in the script, {_spoken(here)} in the check"
                for address in sorted(end for end in ends if cidr.first <= end <= cidr.last)
                if bool(here := _at(ours, address)) != bool(there := _at(theirs, address))
                or not frozenset().union(*there) <= frozenset().union(*here)
                if not any(
                    block.family == cidr.family and block.first <= address <= block.last
                    for block in self.own
                )
            ]
        return differing


def _at(ranges: list[tuple[int, int, frozenset[str]]], address: int) -> set[frozenset[str]]:
    return {devs for first, last, devs in ranges if first <= address <= last}


def _spoken(escapes: set[frozenset[str]]) -> str:
    return (
        " and ".join(f"escapes by {', '.join(sorted(devs)) or 'no device'}" for devs in escapes)
        or "is fine"
    )


def _place(address: str) -> int:
    return int(ip_address(address))
