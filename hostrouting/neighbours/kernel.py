"""The link layer of Linux, by pyroute2, which is loaded on first use: loading takes a tenth of a second.

Here: requests to the kernel, and its answers as values. Not here: the messages for its refusals (`refusal`).

The other end of a veth has an index in its own namespace, and the kernel has a number for that namespace in ours. A
request for a device by index with `if_netnsid` returns the device in that namespace. The exact keyword matters:
pyroute2 drops unknown keywords, and without it the kernel returns the device of that index in our own namespace.

Each call has its own socket, event loop and thread. So it works in a program with a running loop, and a timeout can end
it.
"""

from __future__ import annotations

import errno
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from hostrouting.neighbours import refusal
from hostrouting.neighbours.base import (
    STATES,
    EthernetLink,
    LinkLayerView,
    Neighbour,
    PeerMac,
    UnknownPeer,
    require_permanent,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["KernelLinkLayer"]

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

    def add_neighbour(self, neighbour: Neighbour) -> bool:
        """See LinkLayer."""
        require_permanent(neighbour)
        return self._speak(f"add the neighbour {neighbour}", lambda wire: _add(wire, neighbour))

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
            raise refusal.timed_out(what, self._timeout) from error
        except library.NetlinkError as error:
            raise refusal.refused(what, error.code, error.args[1] if len(error.args) > 1 else "") from error
        except OSError as error:
            if error.errno in {errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}:
                raise refusal.unavailable(error) from error
            raise refusal.refused(what, error.errno or errno.EIO, error.strerror or str(error)) from error


@cache
def _pyroute2() -> Any:
    try:
        # Imported by name, because pyroute2 has no type annotations.
        return import_module("pyroute2")
    except Exception as error:
        raise refusal.cannot_load(error, _REQUIREMENT) from error


async def _look(wire: Any) -> LinkLayerView:
    # Neighbours are read first: to know whether the pod of a neighbour exists, every device that existed at that time
    # must be in the list.
    listed = []
    for family in (_AF_INET, _AF_INET6):
        listed += await _settled(lambda family=family: wire.neigh("dump", family=family))  # type: ignore[misc]
    devices = await _settled(lambda: wire.link("dump"))
    names = {it["index"]: it.get("ifname") for it in devices}
    links = [await _link(wire, it, devices, names) for it in sorted(devices, key=lambda it: it["index"])]
    neighbours = [_neighbour(it, names) for it in listed if it["ifindex"] in names]
    return LinkLayerView(links, sorted(neighbours, key=lambda it: (it.dev, it.ip.version, int(it.ip))))


async def _settled(ask: Callable[[], Awaitable[Any]]) -> list[Any]:
    """A consistent list from the kernel."""
    for _ in range(_READINGS):
        listed = [it async for it in await ask()]
        if not any(it["header"]["flags"] & _NLM_F_DUMP_INTR for it in listed):
            return listed
    raise refusal.unsettled(_READINGS)


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
        found = [it for it in devices if it["index"] == index]
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


async def _add(wire: Any, neighbour: Neighbour) -> bool:
    index = await _index(wire, neighbour.dev)
    if index is None:
        raise refusal.no_device(neighbour)
    flags = _NTF_EXT_LEARNED * neighbour.externally_learned
    told = {
        "dst": str(neighbour.ip),
        "lladdr": neighbour.mac,
        "ifindex": index,
        "state": _NUD_PERMANENT,
        "flags": flags,
    }
    if await _unless(wire.neigh("add", **told), errno.EEXIST) is not None:
        return True
    return await _holder(wire, neighbour, index) == neighbour


async def _index(wire: Any, dev: str) -> int | None:
    found = await _unless(wire.link("get", ifname=dev), errno.ENODEV)
    return found[0]["index"] if found else None


async def _holder(wire: Any, neighbour: Neighbour, index: int) -> Neighbour | None:
    """The present entry for its address on its device."""
    found = await _unless(wire.neigh("get", dst=str(neighbour.ip), ifindex=index), errno.ENOENT, errno.ENODEV)
    return _neighbour(found[0], {index: neighbour.dev}) if found else None


async def _unless(asked: Awaitable[Any], *numbers: int) -> Any:
    """The kernel's answer; None if it refuses with one of these."""
    try:
        return await asked
    except _pyroute2().NetlinkError as error:
        if error.code in numbers:
            return None
        raise
