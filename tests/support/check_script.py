"""check-route-overlap.sh, run in a private namespace, and what is compared with the engine's check of the same host.

Here: one run and its comparison. Not here: the hosts that it runs on.
"""

import json
import re
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import attrs

from hostrouting.boot import render_check_script
from hostrouting.check.examine import examine_snapshot
from hostrouting.check.report import check_document, finding_line
from hostrouting.config import HostRoutingConfig, RouteOverlapConfig
from hostrouting.fib import Fib
from hostrouting.model import IPV4, IPV6, TABLE_MAIN, Prefix, Route, Snapshot, prefixes_between
from hostrouting.routes.uplink import DesiredRoute, default_route, resolve_route
from tests.support.awks import AWKS, only_awk
from tests.support.namespace import Namespace
from tests.support.systemd import THIS_HOST

__all__ = ["Checked", "agree", "check", "comparable", "engine", "left_open", "place", "plain_lines", "snapshot_of"]


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
        **environment: str,
    ) -> None:
        """Render the script, run it; `before` is done first, in a shell with mounts of its own."""
        script = directory / "check.sh"
        script.write_text(only_awk(render_check_script(config, wait=wait), awk, directory, tree=tree))
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
        self.document: dict[str, Any] = json.loads(self.left.get("route-overlap.json", "{}"))


def engine(snapshot: Snapshot, config: HostRoutingConfig) -> dict[str, Any]:
    """The same check by the engine, as its JSON; addresses as Python wrote them before 3.13: ::ffff:a00:1."""
    found = examine_snapshot(snapshot, config)
    document = check_document(found, mode=config.route_overlap.mode)
    document["lines"] = [
        finding_line(attrs.evolve(it, kinds=()), each.report.expected_devs)  # the script does not know the kinds
        for each in found.families
        for it in each.report.findings
    ]
    text = re.sub(r"::ffff:([\d.]+\.\d+)", lambda it: f"::ffff:{in_groups(it[1])}", json.dumps(document))
    decoded: dict[str, Any] = json.loads(text)
    return decoded


def in_groups(address: str) -> str:
    """An IPv4 address as the end of an IPv6 one: a00:1 for 10.0.0.1."""
    high, low = divmod(place(address), 1 << 16)
    return f"{high:x}:{low:x}"


def place(address: str) -> int:
    """The address as a number."""
    return int(ip_address(address))


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """What script and engine both say: the script does not know which rule decides, only what the kernel answers.

    So it has one finding where two rules lead to one route; and Linux answers alike where there is no route and where a
    rule says "unreachable". In IPv4, until there was a rule of somebody's, Linux keeps the routes of local among those of
    main.
    """
    findings: list[dict[str, Any]] = []
    for it in document["findings"]:
        family = ip_address(it["first"]).version
        table = "main" if family == IPV4 and it["via"]["table"] == "local" else it["via"]["table"]
        finding = {**it, "via": {**it["via"], "rule": None, "table": table}}
        if it["kind"] == "unreachable" and it["via"]["route"] is None:
            finding["kind"] = "no-route"
        before = findings[-1] if findings else {}
        if all(before.get(key) == finding[key] for key in ("cidr", "kind", "via")):
            first, last = place(before["last"]), place(finding["first"])
            if first + 1 == last:
                findings[-1] = finding = {**finding, "first": before["first"]}
                ends = (place(finding[key]) for key in ("first", "last"))
                finding["prefixes"] = [str(prefix) for prefix in prefixes_between(family, *ends)]
                continue
        findings.append(finding)
    verdicts = {"": document["verdict"], **document.get("verdicts", {})}
    known = {family: "ok" if verdict == "undecided" else verdict for family, verdict in verdicts.items()}
    return {key: document[key] for key in ("schema", "mode", "expectedDevs")} | {
        "verdicts": known,
        "findings": findings,
    }


def plain_lines(lines: list[str]) -> list[str]:
    """The lines without what only the engine knows: the number of the rule, and whose a route of the kernel is."""
    return [
        re.sub(r" table local|, rule \d+|; owner: .*|\[rule .*\]", "", line.replace("[a rule]", "")) for line in lines
    ]


def _completed(said: dict[str, Any], fib: Fib, protocol: int) -> Route:
    """The route of a repair with what the default route fills in, even if Linux would not take it yet."""
    wish = DesiredRoute(said["destination"], dev=said["dev"] or None, metric=said["metric"])
    assert said["gateway"] == ""
    found = resolve_route(wish, fib, protocol=protocol)
    if isinstance(found, Route):
        return found
    default = default_route(fib, family=wish.destination.family, dev=wish.dev)
    assert default is not None, found
    return attrs.evolve(default, prefix=wish.destination, metric=wish.key.metric, table=TABLE_MAIN, protocol=protocol)


def left_open(snapshot: Snapshot, config: HostRoutingConfig, document: dict[str, Any]) -> set[tuple[str, str]]:
    """What still escapes with the script's repair in place, without what it says that it cannot close."""
    repair = [_completed(it, Fib(snapshot), config.protocol) for it in document["repair"]]
    foreign = {route.key for route in snapshot.routes if route.protocol != config.protocol}
    assert not [route for route in repair if route.key in foreign], "a route that is not ours would be replaced"
    replaced = {it.key for it in repair}
    kept = [route for route in snapshot.routes if route.key not in replaced]
    after = engine(attrs.evolve(snapshot, routes=[*kept, *repair]), config)
    unsafe = [(place(it["first"]), place(it["last"])) for it in document["unsafe"]]
    return {
        (it["first"], it["last"])
        for it in after["findings"]
        if not any(first <= place(it["first"]) and place(it["last"]) <= last for first, last in unsafe)
    }


def snapshot_of(namespace: Namespace, families: Iterable[int] = (IPV4, IPV6)) -> Snapshot:
    """Everything that a decision depends on, in these families; the kernel has used up what has expired."""
    *others, last = families
    snapshot = namespace.snapshot(last)
    rules = [it for family in others for it in namespace.rules(family)]
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
    expected = engine(snapshot, config)
    checked = Checked(namespace, config, tmp_path, awk=AWKS[len(story) % len(AWKS)])
    assert comparable(checked.document) == comparable(expected)
    assert checked.document["verdict"] == verdict
    if verdict == "overlap":
        lines = checked.left["route-overlap.detected"].splitlines()
        assert plain_lines(lines) == plain_lines(expected["lines"])
    assert left_open(snapshot, config, checked.document) == set()
    return checked
