"""An action of a task or a pass, in words."""

from typing import NamedTuple


class Operation(NamedTuple):
    """An action that is not about a static route or a file, in words and with the reason: in
    Effects, what a task has done; in a plan, what it would do.
    """

    verb: str
    object: str
    """The object of the action, such as `nftables table ip6 hostrouting_slb`."""
    reason: str

    def __str__(self) -> str:
        return f"{self.verb} {self.object}    # {self.reason}"
