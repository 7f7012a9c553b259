"""The shell script that restores what a clean-up deletes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hostrouting.azure_vnet.ebtables import BridgeRule
from hostrouting.azure_vnet.neighbours import Neighbour

if TYPE_CHECKING:
    from hostrouting.azure_vnet.judge import CleanupEntry
    from hostrouting.model.route import Route

_HEAD = """\
# Restores what azure-vnet had left behind and hostrouting deleted. Run it with sh, as root, and
# only once: rules that exist would be added a second time. First make sure that no pod has one of
# the addresses: it would be cut off.
status=0
"""


def undo_script(entries: Iterable[CleanupEntry]) -> str:
    """A shell script that restores these entries. If a command fails, the others still run, and the
    exit status is 1. The names of devices need no quotes, because all are azure-vnet's bridges.
    """
    rules: list[BridgeRule] = []
    lines: list[str] = []
    for entry in entries:
        if isinstance(entry.thing, BridgeRule):
            rules.append(entry.thing)
        elif isinstance(entry.thing, Neighbour):
            lines += _neighbour_lines(entry.thing)
        else:
            lines.append(f"{_route_command(entry.thing)} || status=1")
    if rules:  # one command adds all of them
        lines += _rule_lines(rules)
    # `_HEAD` sets $status to 0, and each command that fails sets it to 1.
    return _HEAD + "\n".join([*lines, "exit $status", ""])


def _rule_lines(rules: list[BridgeRule]) -> list[str]:
    """The lines that add the rules again, each at the end of its chain, as azure-vnet does. All
    rules are of one program, because a clean-up refuses if both ebtables-nft and ebtables-legacy
    have some.
    """
    batch = [f"-A {rule.text}" for rule in rules]
    return [f"{rules[0].program}-restore --noflush <<'END' || status=1", "*nat", *batch, "END"]


def _neighbour_lines(neighbour: Neighbour) -> list[str]:
    """The commands that add a neighbour again."""
    return [
        # After the deletion, the kernel may have found out the MAC address itself: `flush` deletes
        # such an entry. If somebody has added a permanent entry, `flush` keeps it, and `add` fails.
        f"ip neigh flush to {neighbour.ip} dev {neighbour.dev}",
        (
            f"ip neigh add {neighbour.ip} lladdr {neighbour.mac} dev {neighbour.dev} nud permanent "
            "|| status=1"
        ),
    ]


def _route_command(route: Route) -> str:
    """The command that adds a route again. azure-vnet's routes have one device and no gateway."""
    # Protocol and scope are numbers, because each host can give them other names.
    return (
        f"ip route add {route.prefix} dev {route.devs[0]} "
        f"proto {route.protocol} scope {route.scope} metric {route.metric}"
    )
