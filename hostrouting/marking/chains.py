"""Which chains of a packet filter run at which hooks: base chains, and the chains that they jump to.

Here: that, for any packet filter. Not here: how chains and rules are read (`nft_rules`, `iptables_rules`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping
    from typing import TypeVar

    from hostrouting.marking.setter import Hook

    Chain = TypeVar("Chain", bound=Hashable)

__all__ = ["hooks_of"]


def hooks_of(bases: Mapping[Chain, Hook], jumps: Iterable[tuple[Chain, Chain]]) -> dict[Chain, frozenset[Hook]]:
    """The hook of every base chain that leads to a chain, for each chain that one leads to."""
    following: dict[Chain, set[Chain]] = {}
    for begin, end in jumps:
        following.setdefault(begin, set()).add(end)
    found: dict[Chain, set[Hook]] = {}
    for base, hook in bases.items():
        ahead, reached = [base], {base}
        while ahead:
            chain = ahead.pop()
            found.setdefault(chain, set()).add(hook)
            new = following.get(chain, set()) - reached
            reached |= new
            ahead += new
    return {chain: frozenset(hooks) for chain, hooks in found.items()}
