"""The strategies for hosts, under the name by which the tests of this repository know them."""

from hostrouting.testing.strategies import DEVICES, blocks, legs, links, prefixes, routes, rules, snapshots

__all__ = ["DEVICES", "blocks", "legs", "links", "prefixes", "routes", "rules", "snapshots"]
