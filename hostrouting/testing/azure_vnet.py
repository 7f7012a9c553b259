"""ebtables and the link layer in memory: the edges of the clean-up after azure-vnet.

For example, a node with a rule, a neighbour and a route of a pod that is gone::

    import phases
    from hostrouting import CleanStaleAzureVnet, HostRoutingConfig
    from hostrouting.azure_vnet.neighbours import LinkLayerView, Neighbour
    from hostrouting.model import Link, Route
    from hostrouting.testing import FakeEbtables, FakeHost, FakeLinkLayer, plain_vm

    kernel = plain_vm()
    kernel.add_link(Link(name="azure0", index=0, kind="bridge"))
    kernel.ip_route("add", Route.to("10.240.0.5/32", dev="azure0", protocol=4))
    arp = "--arp-op Request --arp-ip-dst 10.240.0.5"
    rule = f"PREROUTING -p ARP {arp} -j arpreply --arpreply-mac 02:00:00:00:00:05"
    neighbour = Neighbour("10.240.0.5", "02:00:00:00:00:05", "azure0")
    section = {"managed": ["10.240.0.0/16"], "dryRun": False}
    clean = CleanStaleAzureVnet(
        HostRoutingConfig.from_mapping({"azureVnetCleanup": section}),
        host=FakeHost(kernel=kernel),
        ebtables=FakeEbtables([rule]),
        link_layer=FakeLinkLayer(LinkLayerView(neighbours=(neighbour,))),
    )
    print(phases.plan(clean))  # deletes all three
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hostrouting.azure_vnet.ebtables import BridgeRule
from hostrouting.azure_vnet.neighbours import LinkLayerView, Neighbour
from hostrouting.errors import BackendError, HostError
from hostrouting.testing.faults import Faulty


class FakeEbtables(Faulty[HostError]):
    """ebtables as a list of rules. A test of this project compares it with Linux."""

    def __init__(self, rules: Iterable[str] = ()) -> None:
        super().__init__()
        self.rules = list(rules)
        """The text of each rule, in the order and words of ebtables-save, without its `-A`; for a
        test to change.
        """

    def list_rules(self) -> tuple[BridgeRule, ...]:
        with self.call_that_may_fail():
            return tuple(BridgeRule("ebtables-nft", text) for text in self.rules)

    def delete(self, rules: Sequence[BridgeRule]) -> None:
        with self.call_that_may_fail():
            left = list(self.rules)  # a copy, so that a refusal deletes nothing
            for rule in rules:
                if rule.text not in left:
                    raise HostError(
                        f"ebtables could not delete {rule.text}", what="ebtables", kind="refused"
                    )
                left.remove(rule.text)
            self.rules = left


class FakeLinkLayer(Faulty[BackendError]):
    """The link layer as tables, which a test can change as another process would."""

    def __init__(self, view: LinkLayerView = LinkLayerView()) -> None:  # noqa: B008  not changed
        # The tables begin as copies of those in `view`, or empty; a test can change them.
        # LinkLayerView says what each has.
        super().__init__()
        self.macs = dict(view.macs)
        self.peers = dict(view.peers)
        self.neighbours = list(view.neighbours)
        self.learned = list(view.learned)

    def look(self) -> LinkLayerView:
        with self.call_that_may_fail():
            return LinkLayerView(
                macs=dict(self.macs),
                peers=dict(self.peers),
                neighbours=tuple(sorted(self.neighbours, key=str)),  # as KernelLinkLayer sorts them
                learned=tuple(sorted(self.learned)),
            )

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        # Like KernelLinkLayer, leave an entry that has another MAC address by now, and return False
        # then. Return True if the entry is gone.
        with self.call_that_may_fail():
            present = [
                entry
                for entry in self.neighbours
                if (entry.ip, entry.dev) == (neighbour.ip, neighbour.dev)
            ]
            if present == [neighbour]:
                self.neighbours.remove(neighbour)
                return True
            return not present
