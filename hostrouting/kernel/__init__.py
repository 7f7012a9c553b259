"""The edges through which hostrouting reads and changes the networking of a kernel.

An edge is an access to the host that tests replace. It makes no decisions. It has a contract, which
is a Protocol, and an implementation for Linux. The fakes are in `hostrouting.testing`; the same
tests run on both.
"""

from hostrouting.kernel.base import (
    KIND_OF_ERRNO,
    Answer,
    Outcome,
    RouteBackend,
    RouteRequest,
    Verb,
    Watch,
)

__all__ = [
    "Answer",
    "KIND_OF_ERRNO",
    "RouteRequest",
    "Outcome",
    "RouteBackend",
    "Verb",
    "Watch",
]
