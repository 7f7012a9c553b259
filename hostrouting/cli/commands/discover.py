"""`discover`: propose CIDRs to expect from this host's files, with commands that ask the cluster for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hostrouting.check.examine import examine_snapshot
from hostrouting.cli.command import FAILED, FINE, Command, Reply
from hostrouting.cli.output import Line, Painted, line, table
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
from hostrouting.errors import BackendError
from hostrouting.host.discovery import Discovery, discover
from hostrouting.text import spoken

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend


def _answer(_: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    here = host()
    found = discover(here.files, here.layout)
    lost, why = None, "there are only files here, and no routes"
    if here.backend is not None:
        try:
            lost = list(_lost(found, here.backend))
        except BackendError as error:
            why = str(error)

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


def _lost(found: Discovery, open_backend: Callable[[], RouteBackend]) -> Iterator[dict[str, str]]:
    """The name servers and gateways in these networks whose packets escape."""
    if not found.cidrs:
        return
    with open_backend() as backend:
        snapshot = backend.snapshot()
    config = HostRoutingConfig(route_overlap=RouteOverlapConfig(found.cidrs))
    if not (escapes := examine_snapshot(snapshot, config).escapes):
        return
    hops = [(hop.gateway, hop.dev) for route in snapshot.routes if not route.prefix.length for hop in route.legs]
    named = [(server, f"the name server in {file}") for server, file in found.servers]
    named += [(gateway, f"the gateway of the default route by {dev}") for gateway, dev in hops if gateway is not None]
    for address, role in dict.fromkeys(named):
        for escape in escapes:
            if escape.cidr.family == address.version and escape.first <= int(address) <= escape.last:
                way = f"leaves by {spoken(escape.devs)}" if escape.devs else escape.kind
                yield {"address": str(address), "role": role, "cidr": str(escape.cidr), "way": way}


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
The agent's configuration, the CNI configurations of the host and its machines, and Flannel's subnet file are read. Each
proposed network has its file and key. Most networks are only a part: a node knows its own pods, but not those of other
nodes, and not the network of the services. For these, the command that asks the cluster is shown.

If a proposed network escapes, the name servers and gateways in it that cannot be reached are listed.
Nothing is written. Root is needed only for files that others cannot read, such as those of the machines.
""",
    examples="""\
# which networks do I name?
hostrouting discover
# the same for a program, as the key expectedCidrs
hostrouting discover --json
""",
    failing="no file names a network",
)
