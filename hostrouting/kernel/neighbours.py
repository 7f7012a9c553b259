"""MAC addresses and neighbours: the contract of an edge that reads and deletes them, and the edge to Linux.

Here: devices with the MAC addresses at both ends of veths, neighbours, and an error for each kind of failure, with one
sentence that is the same for Linux and for a fake. Not here: which neighbours are wanted. The contract suite in
`hostrouting.testing` checks the contract on any implementation.

The other end of a veth has an index in its own namespace, and the kernel has a number for that namespace in ours. A
request for a device by index with `if_netnsid` returns the device in that namespace. The exact keyword matters:
pyroute2 drops unknown keywords, and without it the kernel returns the device of that index in our own namespace.

Each call has its own socket, event loop and thread. So it works in a program with a running loop, and a timeout can end
it. pyroute2 is loaded on first use: loading takes a tenth of a second.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from importlib import import_module
from operator import itemgetter
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import attrs

from hostrouting.errors import BackendError
from hostrouting.model.prefix import IP, as_ip

State: TypeAlias = Literal["none", "incomplete", "reachable", "stale", "delay", "probe", "failed", "noarp", "permanent"]

STATES: dict[int, State] = {
    0x00: "none",
    0x01: "incomplete",
    0x02: "reachable",
    0x04: "stale",
    0x08: "delay",
    0x10: "probe",
    0x20: "failed",
    0x40: "noarp",
    0x80: "permanent",
}
"""The kernel's numbers for the state of a neighbour."""

_MAC = re.compile(r"[0-9a-f]{1,2}(:[0-9a-f]{1,2})*", re.IGNORECASE | re.ASCII)


def canonical_mac(text: str) -> str:
    """A MAC address in lower case, with two digits for each byte; ValueError if it is not one."""
    if not _MAC.fullmatch(text):
        raise ValueError(
            f"{text!a} is not a MAC address; write hexadecimal bytes with colons, such as 0a:0b:0c:0d:0e:0f"
        )
    return ":".join(byte.zfill(2) for byte in text.lower().split(":"))


def _mac_or_none(text: str) -> str:
    return canonical_mac(text) if text else ""


@attrs.frozen
class PeerMac:
    """The MAC address of the other end of a veth."""

    mac: str = attrs.field(converter=canonical_mac)

    def __str__(self) -> str:
        return self.mac


@attrs.frozen
class UnknownPeer:
    """The other end of a veth could not be read, so its MAC address is not known."""

    reason: str

    def __str__(self) -> str:
        return f"unknown ({self.reason})"


@attrs.frozen(kw_only=True)
class EthernetLink:
    """A network device with its Ethernet properties."""

    name: str
    index: int
    kind: str = ""
    """The kind as in `ip -details link` ("bridge", "veth"); empty for hardware."""
    mac: str = attrs.field(default="", converter=_mac_or_none)
    """Empty for a device without a MAC address, such as a tunnel."""
    master: str | None = None
    """The bridge, bond or VRF that it belongs to."""
    up: bool = True
    peer: PeerMac | UnknownPeer | None = None
    """The other end of a veth, in whatever namespace it is; None for any other device."""

    def __str__(self) -> str:
        words = [self.name, self.kind or "hardware", self.mac or "no MAC address", "up" if self.up else "down"]
        words += [f"master {self.master}"] * (self.master is not None)
        words += [f"peer {self.peer}"] * (self.peer is not None)
        return " ".join(words)


@attrs.frozen
class Neighbour:
    """An entry that maps an address to a MAC address on one device. `str()` is the line of `ip neigh`."""

    ip: IP = attrs.field(converter=as_ip)
    mac: str = attrs.field(converter=_mac_or_none)
    """Empty while it is not known."""
    dev: str
    state: State = "permanent"
    externally_learned: bool = False
    """Whether a program learned it and maintains it (`extern_learn`)."""

    def __str__(self) -> str:
        words = [f"{self.ip} dev {self.dev}"]
        words += [f"lladdr {self.mac}"] * bool(self.mac)
        words += ["extern_learn"] * self.externally_learned
        return " ".join([*words, self.state.upper()])


def _links(values: Iterable[EthernetLink]) -> tuple[EthernetLink, ...]:
    return tuple(values)


def _neighbours(values: Iterable[Neighbour]) -> tuple[Neighbour, ...]:
    return tuple(values)


@attrs.frozen
class LinkLayerView:
    """The devices and the neighbours of one host."""

    links: tuple[EthernetLink, ...] = attrs.field(default=(), converter=_links)
    """In the order of their indexes."""
    neighbours: tuple[Neighbour, ...] = attrs.field(default=(), converter=_neighbours)
    """By device, then by address."""
    learned: tuple[tuple[str, str], ...] = ()
    """Each MAC address that a bridge has learned or was told, with the port behind which it is."""

    def link(self, name: str) -> EthernetLink | None:
        """The device with this name; None if it does not exist."""
        return next((link for link in self.links if link.name == name), None)


class LinkLayer(Protocol):
    """MAC addresses, and the neighbours that have them.

    Each verb raises a BackendError if the kernel cannot be reached (unavailable, not-permitted), does not answer
    (timeout) or refuses. No verb retries unless its docstring says so.
    """

    def look(self) -> LinkLayerView:
        """The devices, the other end of each veth, and the neighbours of both families.

        Each list is consistent: one that changed while it was read is read again, a few times; then BackendError is
        raised (unsettled). Neighbours are read first, and the other ends last; something may change in between. If the
        other end of a veth cannot be read, it is an UnknownPeer, not an error. Proxy entries and those of a bridge's
        forwarding table are not included. Reading other namespaces requires CAP_NET_ADMIN in them; without it their
        ends are unknown.
        """

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """Delete the entry; False if a different entry for its address exists, which stays.

        The kernel deletes by address and device, whatever the MAC address. So the entry is read again just before, and
        must be equal in every field. Idempotent: an absent entry or device is fine.
        """


T = TypeVar("T")

_REQUIREMENT = "pyroute2<0.10,>=0.9.7"
_AF_INET, _AF_INET6 = 2, 10
_IFF_UP, _NLM_F_DUMP_INTR, _NTF_EXT_LEARNED, _NUD_PERMANENT = 1, 0x10, 0x10, 0x80
_READINGS = 5


class KernelLinkLayer:
    """The link layer of the calling thread's network namespace."""

    def __init__(self, *, timeout: float = 10.0) -> None:
        """Wait up to `timeout` seconds for all requests of one call."""
        self._timeout = timeout

    def look(self) -> LinkLayerView:
        """See LinkLayer."""
        return self._speak("read devices and neighbours", _look)

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """See LinkLayer."""
        return self._speak(f"delete the neighbour {neighbour}", lambda wire: _delete(wire, neighbour))

    def _speak(self, what: str, work: Callable[[Any], Awaitable[T]]) -> T:
        import asyncio  # noqa: PLC0415  pyroute2 loads it anyway, and nothing else here does
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  as above

        library = _pyroute2()

        async def speak() -> T:
            async with library.AsyncIPRoute(ext_ack=True, strict_check=True) as wire:
                return await work(wire)

        try:
            with ThreadPoolExecutor(1) as pool:  # a thread begins in the namespace of the one that starts it
                return pool.submit(lambda: asyncio.run(asyncio.wait_for(speak(), self._timeout))).result()
        except (TimeoutError, asyncio.TimeoutError) as error:  # one class since Python 3.11
            raise timed_out(what, self._timeout) from error
        except library.NetlinkError as error:
            raise refused(what, error.code, error.args[1] if len(error.args) > 1 else "") from error
        except OSError as error:
            if error.errno in {errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}:
                raise unavailable(error) from error
            raise refused(what, error.errno or errno.EIO, error.strerror or str(error)) from error


@cache
def _pyroute2() -> Any:
    try:
        # Imported by name, because pyroute2 has no type annotations.
        return import_module("pyroute2")
    except Exception as error:
        raise cannot_load(error, _REQUIREMENT) from error


async def _look(wire: Any) -> LinkLayerView:
    # Neighbours are read first: to know whether the pod of a neighbour exists, every device that existed at that time
    # must be in the list.
    listed = []
    for family in (_AF_INET, _AF_INET6):
        listed += await _settled(lambda family=family: wire.neigh("dump", family=family))  # type: ignore[misc]
    devices = await _settled(lambda: wire.link("dump"))
    devices.sort(key=itemgetter("index"))
    names = {device["index"]: device.get("ifname") for device in devices}
    links = [await _link(wire, device, devices, names) for device in devices]
    neighbours = [_neighbour(message, names) for message in listed if message["ifindex"] in names]
    learned = {
        (message.get("lladdr"), names[message["ifindex"]])
        for message in await _settled(lambda: wire.fdb("dump"))
        if not message["state"] & _NUD_PERMANENT and message["ifindex"] in names
    }
    by_device = sorted(neighbours, key=lambda entry: (entry.dev, entry.ip.version, int(entry.ip)))
    return LinkLayerView(links, by_device, tuple(sorted(learned)))


async def _settled(ask: Callable[[], Awaitable[Any]]) -> list[Any]:
    """A consistent list from the kernel."""
    for _ in range(_READINGS):
        listed = [message async for message in await ask()]
        if not any(message["header"]["flags"] & _NLM_F_DUMP_INTR for message in listed):
            return listed
    raise unsettled(_READINGS)


async def _link(wire: Any, message: Any, devices: list[Any], names: dict[int, str]) -> EthernetLink:
    kind = message.get(("linkinfo", "kind")) or ""
    return EthernetLink(
        name=message.get("ifname"),
        index=message["index"],
        kind=kind,
        mac=message.get("address") or "",
        master=names.get(message.get("master")),
        up=bool(message["flags"] & _IFF_UP),
        peer=await _peer(wire, message, devices) if kind == "veth" else None,
    )


async def _peer(wire: Any, message: Any, devices: list[Any]) -> PeerMac | UnknownPeer:
    index, namespace = message.get("link"), message.get("link_netnsid")
    if not index:
        return UnknownPeer("the kernel does not report its index")
    if namespace is None:
        found = [device for device in devices if device["index"] == index]
    elif namespace < 0:
        return UnknownPeer("its namespace has no id in this namespace")
    else:
        try:
            found = await wire.link("get", index=index, if_netnsid=namespace)
        except _pyroute2().NetlinkError as error:
            return UnknownPeer(f"index {index} in namespace {namespace}: {error.args[-1]}")
    if len(found) != 1 or found[0].get(("linkinfo", "kind")) != "veth" or not found[0].get("address"):
        return UnknownPeer(f"index {index} is not a veth")
    return PeerMac(found[0].get("address"))


def _neighbour(message: Any, names: dict[int, str]) -> Neighbour:
    return Neighbour(
        message.get("dst"),
        message.get("lladdr") or "",
        names[message["ifindex"]],
        STATES.get(message["state"], "none"),
        externally_learned=bool(message["flags"] & _NTF_EXT_LEARNED),
    )


async def _delete(wire: Any, neighbour: Neighbour) -> bool:
    index = await _index(wire, neighbour.dev)
    holder = None if index is None else await _holder(wire, neighbour, index)
    if holder != neighbour:
        return holder is None
    await _unless(wire.neigh("del", dst=str(neighbour.ip), ifindex=index), errno.ENOENT, errno.ENODEV, errno.ESRCH)
    return True


async def _index(wire: Any, dev: str) -> int | None:
    found = await _unless(wire.link("get", ifname=dev), errno.ENODEV)
    return found[0]["index"] if found else None


async def _holder(wire: Any, neighbour: Neighbour, index: int) -> Neighbour | None:
    """The present entry for the address of `neighbour` on its device."""
    found = await _unless(wire.neigh("get", dst=str(neighbour.ip), ifindex=index), errno.ENOENT, errno.ENODEV)
    return _neighbour(found[0], {index: neighbour.dev}) if found else None


async def _unless(asked: Awaitable[Any], *numbers: int) -> Any:
    """The kernel's answer; None if it is a refusal with one of these numbers."""
    try:
        return await asked
    except _pyroute2().NetlinkError as error:
        if error.code in numbers:
            return None
        raise


# Failures


def refused(what: str, number: int, words: str = "") -> BackendError:
    """The error for a refusal by the kernel, with this errno and text."""
    if number in {errno.EPERM, errno.EACCES}:
        return BackendError(
            f"this process may not {what}; run it as root with the capability CAP_NET_ADMIN",
            errno=number,
            kernel=words,
            kind="not-permitted",
        )
    return BackendError(f"the kernel refused to {what}", errno=number, kernel=words or os.strerror(number))


def timed_out(what: str, seconds: float) -> BackendError:
    """The error for a program that did not answer in time."""
    return BackendError(f"could not {what} within {seconds:g} s: the kernel did not answer; try again", kind="timeout")


def unsettled(times: int) -> BackendError:
    """The error for lists that changed while they were read."""
    return BackendError(
        f"devices or neighbours changed during each of {times} attempts to read them; try again", kind="unsettled"
    )


def unavailable(error: OSError) -> BackendError:
    """The error for a netlink socket that cannot be opened."""
    return BackendError(
        "netlink is not available, so devices and neighbours cannot be read; run this on the host, not in a sandbox",
        errno=error.errno,
        kernel=error.strerror or str(error),
        kind="unavailable",
    )


def cannot_load(error: BaseException, requirement: str) -> BackendError:
    """pyroute2, which is used for netlink here, is missing or broken."""
    return BackendError(
        f"pyroute2, which reads devices and neighbours, cannot be loaded ({type(error).__name__}: {error}); "
        f"install it with `pip install '{requirement}'`",
        kind="unusable",
    )
