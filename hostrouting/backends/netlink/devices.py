"""Devices by name and by number, as they are named at this moment."""

from __future__ import annotations

import errno
import fcntl
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hostrouting.backends.netlink.lists import as_text, ask_device, read_device
from hostrouting.backends.netlink.messages import KernelError, numbered
from hostrouting.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.backends.netlink.channel import Channel

__all__ = ["Names", "NoDevice", "index_of"]

_SIOCGIFNAME = 0x8910
_IFREQ = struct.Struct("=16si20x")  # struct ifreq: the name, the number, padding


class NoDevice(Exception):  # noqa: N818  reads as what is wrong
    """No device has this name, or only as an alternative name. Never leaves this package."""

    def __init__(self, name: str, error: KernelError | None = None, *, own: str | None = None) -> None:
        """Store the name; `own` is the real name of the device that has `name` as an alternative name."""
        self.problem = f"{name} is an alternative name of {own}: use {own}" if own else f"device {name} does not exist"
        self.words = error.words if error else ""
        super().__init__(name)


def index_of(channel: Channel, name: str) -> int:
    """The number of the device with this name at this moment; NoDevice if there is none."""
    # The kernel would truncate or ignore such a name, so no device has it; the same goes for undecodable text.
    packed = name.encode(errors="replace")
    if not 0 < len(packed) < 16 or b"\0" in packed or packed.decode() != name:
        raise NoDevice(name)
    asked = ask_device(packed)
    try:
        answer = channel.ask(lambda number: numbered(asked, number))
    except KernelError as error:
        if error.number == errno.ENODEV:
            raise NoDevice(name, error) from error
        raise BackendError(f"the kernel did not answer whether device {name} exists", errno=error.number,
                           kernel=error.words) from error  # fmt: skip
    index, own = read_device(answer)
    if own != name:
        # The route would be read back with a different device name than requested.
        raise NoDevice(name, own=own)
    return index


class Names(Mapping[int, str]):
    """The names of devices by number, each requested when it is first needed: an answer contains few of hundreds.

    They are requested by the socket's ioctl, because netlink returns forty more attributes of a device with its name.
    """

    def __init__(self, channel: Channel) -> None:
        """Request nothing yet."""
        self._channel = channel
        self._known: dict[int, str] = {}

    def __getitem__(self, index: int) -> str:
        name = self._known.get(index)
        if name is None:
            try:
                said = fcntl.ioctl(self._channel.open(), _SIOCGIFNAME, _IFREQ.pack(b"", index))
            except OSError as error:
                if error.errno == errno.ENODEV:
                    raise KeyError(index) from error
                raise BackendError(f"the kernel did not answer which device has the number {index}", errno=error.errno,
                                   kernel=error.strerror or "") from error  # fmt: skip
            name = self._known[index] = as_text(_IFREQ.unpack(said)[0])
        return name

    def __iter__(self) -> Iterator[int]:
        """The numbers requested so far."""
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
