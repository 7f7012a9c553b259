"""Upkeep: what keeps the routing of a host right after `apply`."""
