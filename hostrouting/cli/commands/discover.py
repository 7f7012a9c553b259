"""`discover`: propose CIDRs to expect from this host's files, with commands that ask the cluster for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.check.examine import examine_snapshot
from hostrouting.cli.command import FAILED, FINE, Command, Reply
from hostrouting.cli.output import Line, Painted, line, table
from hostrouting.cli.source import installed_config
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError
from hostrouting.host.discovery import Discovery, discover
from hostrouting.text import spoken

if TYPE_CHECKING:
    import argparse

    from hostrouting.check.overlap import Escape
    from hostrouting.host.host import Host


def _answer(_: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    here = host()
    found = discover(here.files, here.layout)
    try:
        lost, why = _lost(found, here)
    except BackendError as error:
        lost, why = None, str(error)

    def document() -> dict[str, Any]:
        return {
            "schema": COMMAND.schema,
            "expectedCidrs": [str(cidr) for cidr in found.cidrs],
            "networks": [
                {
                    "cidr": str(named.cidr),
                    "what": named.what,
                    "file": named.file,
                    "key": named.key,
                    "isWhole": named.is_whole,
                }
                for named in found.networks
            ],
            "missing": [{"what": what, "command": command} for what, command in found.missing.items()],
            "lost": lost,
            "remarks": [{"file": file, "text": text} for file, text in found.remarks],
        }

    return Reply(FINE if found.networks else FAILED, document, lambda: _page(found, lost, why))


def _lost(found: Discovery, host: Host) -> tuple[list[dict[str, str]] | None, str]:
    """The name servers and gateways in these networks whose packets escape; or None, and why that is not known."""
    if host.backend is None:
        return None, "there are only files here, and no routes"
    if not found.cidrs:
        return [], ""
    with host.backend() as backend:
        snapshot = backend.snapshot()
    installed = installed_config(host) or HostRoutingConfig()
    overlap = attrs.evolve(installed.route_overlap, expected_cidrs=found.cidrs)
    examination = examine_snapshot(snapshot, attrs.evolve(installed, route_overlap=overlap))
    if examination.verdict == "no-default-route":
        return None, "there is no default route, so the expected devices are not known"
    named = [(server, f"the name server in {file}", "") for server, file in found.servers]
    named += [
        (hop.gateway, f"the gateway of the default route by {hop.dev}", hop.dev)
        for route in snapshot.routes
        for hop in route.legs
        if not route.prefix.length and hop.gateway is not None and hop.dev is not None
    ]
    return [
        {"address": str(address), "role": role, "cidr": str(escape.cidr), "way": _way(escape)}
        for address, role, dev in dict.fromkeys(named)
        for escape in examination.escapes
        if escape.cidr.family == address.version and escape.first <= int(address) <= escape.last
        if dev not in escape.devs  # a gateway is reached by the device of its route
    ], ""


def _way(escape: Escape) -> str:
    return f"leaves by {spoken(escape.devs)}" if escape.devs else escape.kind


def _page(found: Discovery, lost: list[dict[str, str]] | None, why: str) -> Iterator[Line]:
    if found.networks:
        yield line("The files of this host name these networks:")
        rows = [
            [str(named.cidr), named.what if named.is_whole else f"{named.what}, a part", f"{named.file}: {named.key}"]
            for named in found.networks
        ]
        yield from table(["network", "what", "where"], rows)
    else:
        yield line(Painted("No file of this host names a network of the cluster.", "warn"))
    if lost is None:
        yield line(f"Whether a name server or gateway escapes is not known: {why}")
    for one in lost or ():
        yield line(Painted(f"{one['address']}, {one['role']}, is in {one['cidr']} and escapes: {one['way']}", "bad"))
    if found.missing:
        yield line()
        yield line("No file here names the following. With access to the cluster, ask:")
        yield from table(["what", "command"], [[what, command] for what, command in found.missing.items()])
    if found.remarks:
        yield line()
        yield line("Not used:")
        yield from (line("  ", Painted(f"{file} {text}", "soft")) for file, text in found.remarks)
    yield line()
    yield line(f"To check them: hostrouting check {' '.join(map(str, found.cidrs)) or 'CIDR'}")


COMMAND = Command(
    name="discover",
    answer=_answer,
    more="""\
The agent's configuration, the CNI configurations of the host and its machines, and Flannel's subnet file are read. Most
networks in them are only a part: a node knows its own pods, but not those of other nodes, and not the network of the
services. For these, the command that asks the cluster is shown. If a proposed network escapes, the name servers and
gateways in it that leave by a wrong device, or by none, are listed. Root is needed only for files that others cannot
read, such as those of the machines.
""",
    examples="""\
# which networks do I name?
hostrouting discover
# the same for a program, as the key expectedCidrs
hostrouting discover --json
""",
    failing="no file names a network",
)
