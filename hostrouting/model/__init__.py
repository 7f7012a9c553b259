"""The parts of a host's routing as frozen values; no decisions about them."""

from hostrouting.model.prefix import IP, Prefix
from hostrouting.model.route import OURS, NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Address, Link, Snapshot

__all__ = [
    "Snapshot",
    "Link",
    "Address",
    "Rule",
    "default_rules",
    "Route",
    "NextHop",
    "OURS",
    "Prefix",
    "IP",
]
