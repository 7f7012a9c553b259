"""What a task takes, checked when it is made: the task would fail later, and not say why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.host import Host
from phases.arguments import must_be, must_be_number


def _is(kind: type[object], rule: str) -> Callable[[object, Any, Any], None]:
    """A validator of attrs that requires this kind."""
    return lambda _task, field, value: must_be(kind, value, field.name, rule)


IS_FLAG = _is(bool, "True or False")
IS_CONFIG = _is(
    HostRoutingConfig, "a HostRoutingConfig; HostRoutingConfig.from_mapping and .load read one"
)
IS_HOST = _is(
    Host,
    "a Host: Host.local() is this computer, Host.offline(root) an image, FakeHost(kernel=…) one in "
    "memory",
)


def is_duration(_task: object, _field: object, value: Any) -> None:
    """Raise ValueError for a number of seconds that nobody would wait."""
    must_be_number(value, "wait", most=86_400)
