"""The shell script that restores what a clean-up deletes."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote
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
_RESTORE_RULES = """\
rules() {{ cat <<'END'
{batch}
END
}}
rules | {restore} 2>/dev/null ||
  rules | sed 's/^-I \\([A-Z]*\\) [0-9]*/-A \\1/' | {restore}"""
"""All rules in their places (-I CHAIN NUMBER) or, if a chain is too short for that now, all at the
ends of their chains (-A CHAIN). The first try then prints nothing. All rules are of one program:
with rules of two, a clean-up refuses.
"""


def undo_script(entries: Iterable[CleanupEntry]) -> str:
    """A shell script that restores these entries. If a command fails, the others still run, and the
    exit status is 1.
    """
    rules: list[BridgeRule] = []
    commands: list[str] = []
    for entry in entries:
        if isinstance(entry.thing, BridgeRule):
            rules.append(entry.thing)
        elif isinstance(entry.thing, Neighbour):
            commands += _neighbour_commands(entry.thing)
        else:
            commands.append(_route_command(entry.thing))
    if rules:
        commands.append(_rules_command(rules))
    return _HEAD + "".join(f"{command} || status=1\n" for command in commands) + "exit $status\n"


def _rules_command(rules: list[BridgeRule]) -> str:
    batch = ["*nat"]
    for rule in rules:
        chain, _, options = rule.text.partition(" ")
        batch.append(f"-I {chain} {rule.number} {options}")
    return _RESTORE_RULES.format(
        batch="\n".join(batch), restore=f"{rules[0].program}-restore --noflush"
    )


def _neighbour_commands(neighbour: Neighbour) -> list[str]:
    dev = quote(neighbour.dev)
    return [
        # What the kernel has found out about the address since then must go. A permanent entry
        # stays, and the second command then fails and names it.
        f"ip neigh flush to {neighbour.ip} dev {dev}",
        f"ip neigh add {neighbour.ip} lladdr {neighbour.mac} dev {dev} nud permanent",
    ]


def _route_command(route: Route) -> str:
    # azure-vnet's routes have one device and no gateway.
    # Numbers, because each host can configure names for them.
    numbers = f"proto {route.protocol} scope {route.scope} metric {route.metric}"
    return (
        f"ip -{route.prefix.family} route add {route.prefix} dev {quote(route.devs[0])} {numbers}"
    )
