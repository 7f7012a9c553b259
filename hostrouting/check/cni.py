"""The devices that a CNI has made on a host, and the routes with which it refuses packets for pods.

Here: which devices match a pattern, and which routes are for a pod block, so that they are not escapes. Not here: which
devices and refusing routes each CNI has (`config.cni`), and how other refusing routes are judged (`overlap`).
"""

from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache

from hostrouting.config.cni import CNI_ROUTES, CniRoute
from hostrouting.fib import Fib
from hostrouting.model import REFUSING, Prefix, Route, width_of


class PodBlocks:
    """The blocks of addresses for pods of one host, within the checked CIDRs."""

    def __init__(self, fib: Fib, cidrs: tuple[Prefix, ...], allowed: tuple[str, ...]) -> None:
        """Take the host, the CIDRs that are checked, and the patterns of devices that may carry a part of them."""
        self._fib, self._cidrs, self._allowed = fib, cidrs, allowed
        # By id of the route; the route is stored too, so that its id stays valid.
        self._known: dict[int, tuple[Route, bool]] = {}

    def holds(self, route: Route) -> bool:
        """Whether the route refuses packets for one of this host's pod blocks.

        True for a route that a CNI adds, and for a route whose prefix contains a route by an allowed device. The prefix
        must be smaller than a checked CIDR: a route that refuses a whole CIDR, or more, affects other nodes too.
        """
        known = self._known.get(id(route))
        if known is None:
            found = route.type in REFUSING and self._is_part(route) and self._is_block(route)
            known = self._known[id(route)] = route, found
        return known[1]

    def _is_part(self, route: Route) -> bool:
        return any(route.prefix in cidr and route.prefix != cidr for cidr in self._cidrs)

    def _is_block(self, route: Route) -> bool:
        return any(self._is_left(route, trace) for trace in CNI_ROUTES) or any(
            inner.type == "unicast" and inner.legs and all(self.is_like(dev, self._allowed) for dev in inner.devs)
            for inner in self._fib.within(route.prefix, table=route.table)
        )

    def _is_left(self, route: Route, trace: CniRoute) -> bool:
        if route.protocol not in trace.protocols or route.type not in trace.types:
            return False
        if trace.single and route.prefix.length < width_of(route.prefix.family):
            return False
        return trace.dev == "*" or any(is_like(link.name, (trace.dev,)) for link in self._fib.snapshot.links)

    def is_like(self, dev: str, patterns: Iterable[str]) -> bool:
        """Whether a device of this host matches one of these patterns, by its name and its kind."""
        return is_like(dev, patterns, self._kinds.get(dev, ""))

    @cached_property
    def _kinds(self) -> dict[str, str]:
        return {link.name: link.kind for link in self._fib.snapshot.links}


def is_like(dev: str, patterns: Iterable[str], kind: str | None = None) -> bool:
    """Whether a device of this name and kind matches one of these patterns; without a kind, by its name alone."""
    return _names(tuple(patterns), kind)(dev) is not None


@lru_cache(maxsize=64)
def _names(patterns: tuple[str, ...], kind: str | None) -> Callable[[str], object]:
    """A regular expression for the names of devices of this kind, from the patterns that apply to that kind."""
    import re  # noqa: PLC0415  loaded when the first stray device or route is seen
    from fnmatch import translate  # noqa: PLC0415  see above

    parts = (pattern.partition(" ") for pattern in patterns)
    names = (name for name, _, demanded in parts if not demanded or kind in {None, demanded})
    return re.compile("|".join(map(translate, names)) or r"(?!)").match
