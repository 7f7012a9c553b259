"""check-route-overlap.sh, run in a private namespace, and what is compared with the engine's check of the same host.

Here: one run and its comparison. Not here: the hosts that it runs on.
"""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.boot.scripts import render_check_script
from hostrouting.check.examine import examine_snapshot
from hostrouting.check.report import marked_verdict
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
from hostrouting.fib.decision import is_own
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from tests.support.awks import AWKS, only_awk, put_before
from tests.support.systemd import THIS_HOST

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from hostrouting.model.snapshot import Snapshot
    from tests.support.namespace import Namespace

__all__ = ["Answer", "Checked", "agree", "check", "engine", "own_addresses", "place", "snapshot_of"]


class Checked:
    """One run of the script: its exit status, what it said, and what it left."""

    def __init__(
        self,
        namespace: Namespace,
        config: HostRoutingConfig,
        directory: Path,
        *,
        wait: int = 0,
        awk: str = AWKS[0],
        tree: Path = THIS_HOST,
        before: str = "",
        tools: Mapping[str, str] | None = None,
        **environment: str,
    ) -> None:
        """Render the script, run it. `tools` replace the usual programs; `before` is done first, in a shell with mounts of its own."""
        script = directory / "check.sh"
        text = put_before(render_check_script(config, wait=wait), tools or {}, directory)
        script.write_text(only_awk(text, awk, directory, tree=tree))
        state = directory / "state"
        environment["RUNTIME_DIRECTORY"] = str(state)
        if before:
            # What is left is looked at where it was written, which may be a file system of its own.
            copy = f"mkdir -p {state}; rm -rf {directory}/left; cp -r {state} {directory}/left"
            words = [
                "unshare",
                "--mount",
                "bash",
                "-c",
                f"{before} && {{ bash {script}; status=$?; {copy}; exit $status\n}}",
            ]
            done, state = namespace.run(*words, **environment), directory / "left"
        else:
            done = namespace.run("bash", str(script), **environment)
        self.status, self.said = done.returncode, done.stderr
        left = [path for path in state.iterdir() if path.is_file()] if state.is_dir() else []
        self.left = {path.name: path.read_text() for path in left}
        self.lines = self.left.get("route-overlap.detected", "").splitlines()

    @property
    def answer(self) -> Answer:
        """The verdict of the marker, and the ranges of its lines."""
        if "route-overlap.ok" in self.left:
            return Answer(marked_verdict(self.left["route-overlap.ok"]))
        if self.lines == ["no-default-route"] or not self.lines:
            return Answer("no-default-route" if self.lines else "failed")
        found = [it for line in self.lines if (it := LINE.match(line))]
        devs = [frozenset(it["devs"].split(", ") if it["devs"] else ()) for it in found]
        ranges = [(it["cidr"], place(it["first"]), place(it["last"] or it["first"])) for it in found]
        return Answer("overlap", tuple((*each, by) for each, by in zip(ranges, devs, strict=True)))


@attrs.frozen
class Answer:
    """A verdict, and what escapes: the CIDR, the first and the last address, and the devices by which it leaves."""

    verdict: str
    escapes: tuple[tuple[str, int, int, frozenset[str]], ...] = ()

    def without(self, own: Collection[tuple[int, int]]) -> Answer:
        """The answer without these addresses of the host, which may or may not be parts of its ranges, and no doubts."""
        found: list[tuple[str, int, int, frozenset[str]]] = []
        for cidr, begin, last, devs in sorted(self.escapes, key=lambda it: it[:3]):
            family = ip_network(cidr).version
            inside = sorted(at for version, at in own if version == family and begin <= at <= last)
            for first, end in zip([begin, *(at + 1 for at in inside)], [*inside, last + 1], strict=True):
                if first == end:
                    continue
                joins = found and found[-1] == (cidr, found[-1][1], first - 1, devs)
                found.append((cidr, found.pop()[1] if joins else first, end - 1, devs))
        return Answer(self.verdict.replace("undecided", "ok"), tuple(found))


def engine(snapshot: Snapshot, config: HostRoutingConfig) -> Answer:
    """The same check by the engine, without its doubts."""
    found = examine_snapshot(snapshot, config)
    verdicts = {each.report.verdict for each in found.families}
    verdict = next((it for it in ("overlap", "no-default-route") if it in verdicts), "ok")
    escapes = [
        (str(finding.cidr), finding.first, finding.last, frozenset(finding.devs))
        for each in found.families
        for finding in each.report.escapes
        if not finding.senders
    ]
    return Answer(verdict, tuple(escapes)).without(own_addresses(snapshot))


def own_addresses(snapshot: Snapshot) -> frozenset[tuple[int, int]]:
    """The single addresses of this host, and those of its networks that Linux keeps for itself."""
    return frozenset(
        (route.prefix.family, int(route.prefix.first))
        for route in snapshot.routes
        if route.prefix.first == route.prefix.last and is_own(route.type, route)
    ) | {(IPV4, 0), (IPV4, (1 << 32) - 1)}


def place(address: str) -> int:
    """The address as a number."""
    return int(ip_address(address))


LINE = re.compile(  # the dash between two addresses is \u2013
    r"[A-Z-]+: expected CIDR (?P<cidr>\S+) \((?P<first>[^\u2013)]+)(\u2013(?P<last>[^)]+))?\) "
    r"(routes via (?P<devs>.*) \[)?"
)


def snapshot_of(namespace: Namespace, families: Iterable[int] = (IPV4, IPV6)) -> Snapshot:
    """Everything that a decision depends on, in these families; the kernel has used up what has expired."""
    *others, last = families
    snapshot = namespace.snapshot(last)
    rules = [rule for family in others for rule in namespace.rules(family)]
    every = [it for family in others for it in namespace.routes(family)]
    every += snapshot.routes
    if any(route.expires == 0 for route in every):
        # Linux tells the seconds until a route expires, and since then: 0 is either.
        every = [attrs.evolve(route, expires=-1) if route.expires == 0 else route for route in every]
    return attrs.evolve(snapshot, rules=(*rules, *snapshot.rules), routes=every)


def check(*cidrs: str, mode: str = "STRICT", **options: Any) -> HostRoutingConfig:
    """A configuration that checks these."""
    return HostRoutingConfig(route_overlap=RouteOverlapConfig(cidrs or ["172.16.0.0/16"], mode, **options))


def agree(namespace: Namespace, tmp_path: Path, story: str, cidr: str, verdict: str) -> Checked:
    """The script's check of this CIDR, which has to be the engine's."""
    expected_devs = ["eth0"] * story.endswith("expected")
    config = check(cidr, expected_devs=expected_devs, allowed_devs=["pod?.*", "veth*"])
    snapshot = snapshot_of(namespace, [Prefix.parse(cidr).family])
    checked = Checked(namespace, config, tmp_path, awk=AWKS[len(story) % len(AWKS)])
    assert checked.answer.without(own_addresses(snapshot)) == engine(snapshot, config), checked.said
    assert checked.answer.verdict == verdict
    return checked
