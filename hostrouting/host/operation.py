"""An action of a task or a pass that is not about a static route or a file."""

from typing import NamedTuple


class Operation(NamedTuple):
    """An action in words, with its reason. In Effects, a task has done it; in a plan, it would do
    it. Static routes and files have records of their own.
    """

    verb: str
    object: str
    """The object of the action, such as `nftables table ip6 hostrouting_slb`."""
    reason: str

    def __str__(self) -> str:
        return f"{self.verb} {self.object}    # {self.reason}"
