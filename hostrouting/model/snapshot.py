"""A host's routing at one moment, with its devices and their addresses; and the JSON form
`hostrouting/snapshot/1`.

The JSON form follows from the fields, so that no field can be forgotten. `kernel` takes snapshots.
"""

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Annotated, Any, NamedTuple

from hostrouting.errors import ConfigError, Fault
from hostrouting.model.prefix import IP, Prefix
from hostrouting.model.route import OURS, Route, Word
from hostrouting.model.rule import Rule
from hostrouting.reading import json_value, load, parse, read

ARPHRD_ETHERNET, ARPHRD_INFINIBAND, ARPHRD_LOOPBACK = 1, 32, 772

SCHEMA = "hostrouting/snapshot/1"
SAVE = "save one with the command snapshot"


class Link(NamedTuple):
    """A network device, identified by its name; its index changes when it is created again."""

    name: Word
    index: int  # type: ignore[assignment]  # the method of tuples is not needed
    kind: Word = ""
    """The kind of the device as in `ip -details link` ("veth", "bridge", "vrf", …); empty for
    hardware.
    """
    type: int = 1
    """The ARPHRD number: the type of the link-layer addresses (1 Ethernet, 32 InfiniBand, 772
    loopback).
    """
    up: bool = True
    master: Word | None = None

    @property
    def loopback(self) -> bool:
        """Whether no packet leaves the host by the device, whatever its name."""
        return self.type == ARPHRD_LOOPBACK


class Address(NamedTuple):
    """An address of this host, on one of its devices."""

    ip: IP
    length: Annotated[int, range(129)]
    dev: Word
    scope: int = 0
    peer: IP | None = None

    def faults_between_fields(self) -> Iterator[Fault]:
        """Yield a fault if two values that are right alone do not fit together: a prefix length
        that exceeds the number of bits of the address.
        """
        # With a peer, the length is that of the peer's network.
        bits = (self.peer or self.ip).max_prefixlen
        if self.length > bits:
            yield Fault("length", str(self.length), f"is more than the {bits} bits of the address")

    @property
    def network(self) -> Prefix:
        """The network to which Linux adds a route because of this address: that of the peer, if
        the address has one.
        """
        ip = self.peer or self.ip
        return Prefix.around(ip.version, int(ip), self.length)


class Snapshot(NamedTuple):
    """Links, addresses, rules and routes of one host at one moment.

    Rules and routes are in the kernel's order: of two that are otherwise equal, the first wins. All
    four have to be given: an empty tuple of rules is a host without any, not one with the usual
    rules.
    """

    links: tuple[Link, ...]
    addresses: tuple[Address, ...]
    rules: tuple[Rule, ...]
    routes: tuple[Route, ...]
    ipv6_forwarding: bool | None = None
    """Whether this host forwards IPv6 packets (`net.ipv6.conf.all.forwarding`); None if that is not
    known.
    """
    restless: bool = False
    """Whether the tables changed while they were read: the snapshot may show a state that never
    existed.
    """

    @property
    def links_by_name(self) -> dict[str, Link]:
        """Each link by its name."""
        return {link.name: link for link in self.links}

    def with_routes(self, added: Iterable[Route]) -> "Snapshot":
        """The host as it would be after these routes are added, behind all others. A new route
        replaces a route of hostrouting (protocol 213) that has the same key, as with `ip route
        replace`.
        """
        new_routes = tuple(added)
        keys = {route.key for route in new_routes}
        kept = [route for route in self.routes if route.protocol != OURS or route.key not in keys]
        return self._replace(routes=(*kept, *new_routes))

    def to_json(self) -> str:
        """The snapshot as a JSON text that `from_json` reads, in ASCII so that any encoding can
        write it. Fields with their default value are left out.
        """
        import json  # noqa: PLC0415  slow to load, and a check of the host needs none

        return json.dumps({"schema": SCHEMA, **json_value(self)})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Snapshot":
        """The snapshot in a file or pipe; `-` is standard input. A ConfigError names the file as
        its `source`.
        """
        return load(path, cls.from_json)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Snapshot":
        """Read a text that `to_json` has made. A ConfigError lists all faults at once."""
        try:
            document = parse(text)
            _take_out_schema(document)
            return read(cls, document)
        except ConfigError as error:
            raise ConfigError(error.faults, "the snapshot") from error


def _take_out_schema(document: Any) -> None:
    """Check the key `schema` of a saved snapshot and remove it, because it is not a field of
    Snapshot. ConfigError if it is missing, or not the SCHEMA that this version reads.
    """
    schema = document.pop("schema", "") if isinstance(document, dict) else ""
    if schema == SCHEMA:
        return
    rule = f"is not {SCHEMA!r}"
    if schema:
        # Cut off after 60 characters, because the value can have any length.
        rule = f"is {schema!r:.60}, and this version reads {SCHEMA!r}"
    raise ConfigError([Fault("", "", rule, remedy=SAVE)])
