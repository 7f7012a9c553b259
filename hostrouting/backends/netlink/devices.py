"""Devices by name and by number, as they are called at this moment."""

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
_IFREQ = struct.Struct("=16si20x")  # struct ifreq: the name, the number, room


class NoDevice(Exception):  # noqa: N818  reads as what is wrong
    """No device has this name, or not as its own. Never leaves this package."""

    def __init__(self, name: str, error: KernelError | None = None, *, own: str | None = None) -> None:
        """Name it; `own` is what the device calls itself that answers to the name."""
        self.problem = f"{name} is but another name of {own}: say {own}" if own else f"there is no device {name}"
        self.words = error.words if error else ""
        super().__init__(name)


def index_of(channel: Channel, name: str) -> int:
    """The number by which the kernel knows the device now; NoDevice if there is none."""
    # A name that the kernel would cut short or not look at is nobody's, and neither is one that is no text.
    packed = name.encode(errors="replace")
    if not 0 < len(packed) < 16 or b"\0" in packed or packed.decode() != name:
        raise NoDevice(name)
    asked = ask_device(packed)
    try:
        answer = channel.ask(lambda number: numbered(asked, number))
    except KernelError as error:
        if error.number == errno.ENODEV:
            raise NoDevice(name, error) from error
        raise BackendError(f"the kernel does not say whether there is a device {name}", errno=error.number,
                           kernel=error.words) from error  # fmt: skip
    index, own = read_device(answer)
    if own != name:
        # What is read back would be called otherwise than what was asked for.
        raise NoDevice(name, own=own)
    return index


class Names(Mapping[int, str]):
    """The names of devices by number, each asked for when it is first wanted: of hundreds few are met in an answer.

    They are asked for by the socket's ioctl, for what netlink says of a device are forty things beside its name.
    """

    def __init__(self, channel: Channel) -> None:
        """Ask for none yet."""
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
                raise BackendError(f"the kernel does not say which device has the number {index}", errno=error.errno,
                                   kernel=error.strerror or "") from error  # fmt: skip
            name = self._known[index] = as_text(_IFREQ.unpack(said)[0])
        return name

    def __iter__(self) -> Iterator[int]:
        """Those that were asked for."""
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
