"""What cannot be the handle of a Pyroute2Backend, and a handle with a bug. That a real one keeps the
contract is proven in test_contract.py.
"""

import asyncio
from typing import Any

import pyroute2
import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.pyroute2 import Pyroute2Backend


@pytest.mark.parametrize("handle", ["netns", None, pyroute2.IPRoute])
def test_what_is_no_handle(handle: object) -> None:
    """The error names what is missing, before anything is asked."""
    with pytest.raises(TypeError, match=r"a (str|NoneType|type) has no get_links"):
        Pyroute2Backend(handle)


@pytest.mark.linux
def test_an_asynchronous_handle() -> None:
    """Its methods would return coroutines."""

    async def use() -> None:
        async with pyroute2.AsyncIPRoute() as handle:
            with pytest.raises(TypeError, match=r"pass a pyroute2\.IPRoute, not an AsyncIPRoute"):
                Pyroute2Backend(handle)

    asyncio.run(use())


class Buggy:
    """A handle whose methods take other arguments."""

    def get_links(self) -> tuple[()]:
        """Takes no ext_mask."""
        return ()

    def other(self, *_arguments: Any, **_options: Any) -> tuple[()]:
        """Takes anything."""
        return ()

    get_addr = get_rules = get_routes = route = other


def test_a_handle_with_a_bug() -> None:
    """It is not an error of the kernel, and trying again would not help."""
    with Pyroute2Backend(Buggy()) as backend, pytest.raises(BackendError) as caught:
        backend.snapshot()
    assert (caught.value.kind, caught.value.can_retry) == ("unusable", False)
    assert "the handle cannot read the host's routes: TypeError: " in str(caught.value)
