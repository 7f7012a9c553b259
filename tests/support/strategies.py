"""The strategies for hosts, under the name that the tests of this repository use."""

from hostrouting.testing.strategies import DEVICES, blocks, legs, links, prefixes, routes, rules, snapshots

__all__ = ["DEVICES", "blocks", "legs", "links", "prefixes", "routes", "rules", "snapshots"]
