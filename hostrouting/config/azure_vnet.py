"""The section `azureVnetCleanup`, for cleaning up what azure-vnet left behind, and its rules.

Here: the frozen values of the section, its defaults, and the rules for values that only this section has. Not here:
what is deleted. No value of this section makes the task flush a chain or delete a rule that applies to the whole node.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import attrs

from hostrouting.config.json import Keys, Section, Spot, list_of
from hostrouting.config.values import Network, devs, network_in, switch

_WIDEST = {4: 8, 6: 32}


@attrs.frozen(init=False, repr=False)
class AzureVnetCleanupConfig(Section):
    """Which state of azure-vnet is stale, and what the cleanup may change."""

    managed: tuple[Network, ...]
    """The networks of the pods that another CNI manages now: nothing outside them is deleted."""
    protect: tuple[Network, ...]
    """Addresses and networks whose rules and entries are kept."""
    uplinks: tuple[str, ...]
    """Devices that count as uplinks, in addition to the bridge ports that are hardware or built on it."""
    dry_run: bool
    """Whether the task only reports; on the command line, --apply turns this off."""

    def __init__(
        self,
        managed: Iterable[Network | str],
        *,
        protect: Iterable[Network | str] = (),
        uplinks: Iterable[str] = (),
        dry_run: bool = True,
    ) -> None:
        self._keys.fill(self, locals())


def _managed_network(raw: object, at: Spot) -> Network:
    network = network_in(raw, at, or_address=True)
    if network.prefixlen < _WIDEST[network.version]:
        rule = f"is wider than a /{_WIDEST[network.version]}: too wide for a pod network"
        raise at.faulty(raw, rule, "name the networks of the pods")
    return network


AZURE_VNET_CLEANUP = AzureVnetCleanupConfig._keys = Keys(
    {
        "managed": list_of(
            _managed_network,
            empty=(
                "the clean-up deletes only what is in the listed networks, so an empty list deletes nothing",
                'name the networks of the pods, such as ["10.240.0.0/16"]',
            ),
        ),
        "protect": list_of(partial(network_in, or_address=True)),
        "uplinks": devs,
        "dry_run": switch,
    },
    absent={"dry_run": True},
    required={"managed": 'name the networks of the pods that another CNI manages now, such as ["10.240.0.0/16"]'},
)
"""The keys of the section."""
