"""Sections of a configuration from texts and lists, without types."""

from typing import Any

from hostrouting.config.settings import RouteOverlapConfig, StaticRoute


def static(
    destination: Any, gateway: Any = None, dev: str | None = None, metric: int = 0
) -> StaticRoute:
    """A static route; its destination and gateway are texts."""
    return StaticRoute(str(destination), gateway, dev, metric)  # type: ignore[arg-type]


def expect(*cidrs: Any, **settings: Any) -> RouteOverlapConfig:
    """The CIDRs that are expected, with other settings of the section."""
    return RouteOverlapConfig(tuple(map(str, cidrs)), **settings)  # type: ignore[arg-type]
