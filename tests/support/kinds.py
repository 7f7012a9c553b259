"""The kind of an error: to expect one, and to ask for it."""

from typing import TypeVar

import pytest
from _pytest.raises import RaisesExc

from hostrouting.errors import HostRoutingError

E = TypeVar("E", bound=HostRoutingError)


def raises(error: type[E], kind: str, *, match: str | None = None) -> RaisesExc[E]:
    """As pytest.raises, for an error of this kind."""
    return pytest.raises(error, match=match, check=lambda raised: raised.kind == kind)


def kind_of(error: object) -> str:
    """The kind; empty for None, and for an error without one."""
    return error.kind if isinstance(error, HostRoutingError) else ""
