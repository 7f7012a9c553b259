"""Test kit for code that uses hostrouting: a kernel to play with, ready hosts, strategies, and the promises as tests.

    MemoryBackend      a kernel in a dictionary, equal to Linux; faults can be injected
    Faults             what can go wrong in it
    MemoryNftables     nftables in a dictionary; faults can be injected
    MemoryEbtables     ebtables in a list; faults can be injected
    MemoryLinkLayer    MAC addresses and neighbours in lists; faults can be injected
    FakeHost           that kernel with files and a manager, for tests of tasks; FakeFiles, FakeManager
    topologies         hosts to begin with: `plain_vm()`, `h200()`, `vpn_node()`, `ecmp_node()`, `cni_node()`
    contract           the promises of RouteBackend as tests: subclass `contract.BackendContract`
    nftables_contract  the promises of Nftables as tests: subclass `nftables_contract.NftablesContract`
    ebtables_contract  the promises of Ebtables as tests: subclass `ebtables_contract.EbtablesContract`
    link_layer_contract  the promises of LinkLayer as tests: subclass `link_layer_contract.LinkLayerContract`
    strategies         hypothesis strategies for prefixes, routes, rules and snapshots
    config_strategies  hypothesis strategies for configurations
    nftables_strategies  hypothesis strategies for tables of nftables
    plugin             pytest fixtures, switched on with `pytest_plugins = ["hostrouting.testing.plugin"]`

hypothesis and pytest are loaded only by the modules that are made of them, and neither is a dependency: whoever
writes tests has them.

A test of code that installs routes::

    from hostrouting.testing import h200

    def test_the_cluster_is_reachable():
        kernel = h200()
        install_routes(kernel)
        (answer,) = kernel.lookup([as_ip("172.16.20.1")])
        assert answer.route.devs == ("eth0",)
"""

from hostrouting.backends.memory import Faults, MemoryBackend
from hostrouting.ebtables.memory import MemoryEbtables
from hostrouting.neighbours.memory import MemoryLinkLayer
from hostrouting.nftables.memory import MemoryNftables
from hostrouting.testing.host import FakeFiles, FakeHost, FakeManager
from hostrouting.testing.topologies import cni_node, ecmp_node, h200, plain_vm, vpn_node

__all__ = [
    # the kernel
    "MemoryBackend",
    "Faults",
    "MemoryNftables",
    "MemoryEbtables",
    "MemoryLinkLayer",
    # a whole host
    "FakeFiles",
    "FakeHost",
    "FakeManager",
    # hosts to begin with
    "plain_vm",
    "h200",
    "vpn_node",
    "ecmp_node",
    "cni_node",
]
