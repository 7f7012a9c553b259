"""The section `azureVnetCleanup`, for cleaning up what azure-vnet left behind, and its rules.

Here: the frozen values of the section, its defaults, and the rules for values that only this section has. Not here:
what is deleted. No value of this section makes the task flush a chain or delete a rule that applies to the whole node.
"""

from __future__ import annotations

import re
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.config.json import Keys, Spot, items_read, text_of
from hostrouting.config.values import Network, Word, devs, integer, network_in, one_of, switch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "AZURE_VNET_CLEANUP",
    "DEFAULT_BRIDGE_PATTERN",
    "DEFAULT_CONFLIST_DIR",
    "DEFAULT_MAX_DELETIONS",
    "DEFAULT_STATE_FILE",
    "AzureVnetCleanupConfig",
    "CleanupScope",
    "EbtablesChoice",
    "IfAzureVnetActive",
]

DEFAULT_BRIDGE_PATTERN = r"azure\d+"
"""azure-vnet names its bridge azure0, or azure followed by the index of the uplink."""
DEFAULT_STATE_FILE = "/var/run/azure-vnet.json"
DEFAULT_CONFLIST_DIR = "/etc/cni/net.d"
DEFAULT_MAX_DELETIONS = 1000

_WIDEST = {4: 8, 6: 32}
_MOST_DELETIONS = 1_000_000
_LONGEST = 255
_OTHER_BRIDGES = ("docker0", "cbr0", "cni0", "br0", "virbr0")
"""Bridges of other programs: a pattern that matches one of them is a mistake."""


class IfAzureVnetActive(Word):
    """What to do if the CNI configuration says that azure-vnet still manages this node's pods."""

    FAIL = "fail"
    WARN = "warn"
    IGNORE = "ignore"


class EbtablesChoice(Word):
    """The ebtables that the rules are read from."""

    AUTO = "auto"
    """The program named ebtables on the host."""
    NFT = "nft"
    LEGACY = "legacy"


@attrs.frozen(init=False)
class CleanupScope:
    """The kinds of state to find and delete."""

    ebtables: bool
    neigh: bool
    routes: bool

    def __init__(self, *, ebtables: bool = True, neigh: bool = True, routes: bool = True) -> None:
        self.__attrs_init__(**_SCOPE.check(ebtables=ebtables, neigh=neigh, routes=routes))

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object of this section."""
        return _SCOPE.write(self)


@attrs.frozen(init=False)
class AzureVnetCleanupConfig:
    """Which state of azure-vnet is stale, and how careful the cleanup is."""

    managed: tuple[Network, ...]
    """The networks of the pods that another CNI manages now: nothing outside them is deleted."""
    protect: tuple[Network, ...]
    """Addresses and networks whose rules and entries are kept."""
    bridge_pattern: str
    """A regular expression that must match the whole name of azure-vnet's bridge."""
    uplinks: tuple[str, ...]
    """Devices that count as uplinks, in addition to the bridge ports that are hardware or built on it."""
    what: CleanupScope
    dry_run: bool
    """Whether the task only reports; on the command line, --apply turns this off."""
    require_dead_mac: bool
    """Whether to delete nothing while the MAC addresses behind a bridge port cannot be read."""
    state_file: str
    conflist_dir: str
    if_azure_vnet_active: IfAzureVnetActive
    ebtables: EbtablesChoice
    max_deletions: int
    """If there is more than this to delete, nothing is deleted."""

    def __init__(
        self,
        managed: Iterable[Network | str],
        *,
        protect: Iterable[Network | str] = (),
        bridge_pattern: str = DEFAULT_BRIDGE_PATTERN,
        uplinks: Iterable[str] = (),
        what: CleanupScope | Mapping[str, object] | None = None,
        dry_run: bool = True,
        require_dead_mac: bool = True,
        state_file: str = DEFAULT_STATE_FILE,
        conflist_dir: str = DEFAULT_CONFLIST_DIR,
        if_azure_vnet_active: IfAzureVnetActive | str = IfAzureVnetActive.FAIL,
        ebtables: EbtablesChoice | str = EbtablesChoice.AUTO,
        max_deletions: int = DEFAULT_MAX_DELETIONS,
    ) -> None:
        given = AZURE_VNET_CLEANUP.check(
            managed=managed,
            protect=protect,
            bridge_pattern=bridge_pattern,
            uplinks=uplinks,
            what={} if what is None else what,
            dry_run=dry_run,
            require_dead_mac=require_dead_mac,
            state_file=state_file,
            conflist_dir=conflist_dir,
            if_azure_vnet_active=if_azure_vnet_active,
            ebtables=ebtables,
            max_deletions=max_deletions,
        )
        self.__attrs_init__(**given)

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object of this section."""
        return AZURE_VNET_CLEANUP.write(self)


def _managed(raw: object, at: Spot) -> tuple[Network, ...]:
    before = len(at.faults)
    networks: tuple[Network, ...] = items_read(raw, at, _managed_network)
    if not networks and len(at.faults) == before:
        rule = "the list is empty, and the clean-up deletes only what is in the listed networks"
        at.note_absence(rule, 'name the networks of the pods, such as ["10.240.0.0/16"]')
    return networks


def _managed_network(raw: object, at: Spot) -> Network:
    network = network_in(raw, at, or_address=True)
    if network.prefixlen < _WIDEST[network.version]:
        rule = f"is wider than a /{_WIDEST[network.version]}: too wide for a pod network"
        raise at.faulty(raw, rule, "name the networks of the pods")
    return network


def _protected(raw: object, at: Spot) -> tuple[Network, ...]:
    return items_read(raw, at, partial(network_in, or_address=True))


def _pattern(raw: object, at: Spot) -> str:
    remedy = r'write a pattern such as "azure\\d+"; it must match the whole name'
    text = text_of(raw, at, remedy)
    if not text or len(text) > _LONGEST:
        raise at.faulty(raw, f"is not a pattern: it must have 1 to {_LONGEST} characters", remedy)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # syntax that a future Python will read differently is refused now
            compiled = re.compile(text, re.ASCII)
    except (re.error, Warning, OverflowError, RecursionError, ValueError) as error:
        raise at.faulty(raw, "is not a regular expression", remedy) from error
    others = [name for name in _OTHER_BRIDGES if compiled.fullmatch(name)]
    if others:
        raise at.faulty(raw, f"also matches {others[0]}, which is not a bridge of azure-vnet", remedy)
    return text


def _path(raw: object, at: Spot) -> str:
    remedy = 'write an absolute path such as "/etc/cni/net.d"'
    text = text_of(raw, at, remedy)
    if not (text.startswith("/") and text.isprintable() and text.isascii() and ".." not in text.split("/")):
        raise at.faulty(raw, "is not an absolute path", remedy)
    return text


def _most(raw: object, at: Spot) -> int:
    return integer(raw, at, _MOST_DELETIONS, f"write an integer from 1 to {_MOST_DELETIONS}", lowest=1)


_SCOPE = Keys({"ebtables": switch, "neigh": switch, "routes": switch})
AZURE_VNET_CLEANUP = Keys(
    {
        "managed": _managed,
        "protect": _protected,
        "bridge_pattern": _pattern,
        "uplinks": devs,
        "what": _SCOPE.reader(CleanupScope),
        "dry_run": switch,
        "require_dead_mac": switch,
        "state_file": _path,
        "conflist_dir": _path,
        "if_azure_vnet_active": one_of(IfAzureVnetActive, "an allowed value"),
        "ebtables": one_of(EbtablesChoice, "an ebtables program"),
        "max_deletions": _most,
    },
    required={"managed": 'name the networks of the pods that another CNI manages now, such as ["10.240.0.0/16"]'},
)
"""The keys of the section."""
