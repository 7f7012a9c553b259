"""What a task takes, checked when it is made: the task would fail later, and not say why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.host import Host
from phases.arguments import must_be_number


def _must_be(kind: type[object], remedy: str) -> Callable[[object, Any, Any], None]:
    """A validator that raises TypeError for a value of another kind."""

    def validate(_task: object, field: Any, value: Any) -> None:
        if not isinstance(value, kind):
            raise TypeError(
                f"{field.name} must be a {kind.__name__}, not a {type(value).__name__}: {remedy}"
            )

    return validate


IS_FLAG = _must_be(bool, "write True or False")
IS_CONFIG = _must_be(HostRoutingConfig, "HostRoutingConfig.from_mapping and .load read one")
IS_HOST = _must_be(
    Host,
    "Host.local() is this computer, Host.offline(root) an image, FakeHost(kernel=…) one in memory",
)


def is_duration(_task: object, _field: object, value: Any) -> None:
    """Raise ValueError for a number of seconds that nobody would wait."""
    must_be_number(value, "wait", most=86_400)
