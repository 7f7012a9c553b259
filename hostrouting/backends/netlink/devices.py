"""Devices by name and by number, as they are called at this moment."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hostrouting.backends.netlink.decode import read_device
from hostrouting.backends.netlink.framing import KernelError
from hostrouting.backends.netlink.questions import ask_device, numbered
from hostrouting.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.backends.netlink.channel import Channel

__all__ = ["Names", "NoDevice", "index_of"]


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
    asked = ask_device(name=packed)
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
    """The names of devices by number, each asked for when it is first wanted: of hundreds few are met in an answer."""

    def __init__(self, channel: Channel) -> None:
        """Ask for none yet."""
        self._channel = channel
        self._known: dict[int, str] = {}

    def __getitem__(self, index: int) -> str:
        if index not in self._known:
            asked = ask_device(index=index)
            try:
                _, self._known[index] = read_device(self._channel.ask(lambda number: numbered(asked, number)))
            except KernelError as error:
                if error.number == errno.ENODEV:
                    raise KeyError(index) from error
                raise BackendError(f"the kernel does not say which device has the number {index}", errno=error.number,
                                   kernel=error.words) from error  # fmt: skip
        return self._known[index]

    def __iter__(self) -> Iterator[int]:
        """Those that were asked for."""
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
