"""The boot script and the unit that rewrite the source of load-balancer probes, and the settings in the script.

Here: text. Not here: evaluating a condition that depends on more than the host itself (`tasks`); such a condition is
written into the script as its result, `always` or `never`.
"""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import attrs

from hostrouting.boot.scripts import DEFAULT_WAIT, KnownSettings, filled, settings_in
from hostrouting.boot.units import FLUSHERS, GRACE, render_oneshot
from hostrouting.host.layout import HostLayout
from hostrouting.model import DEFAULT_METRIC, IPV6, OURS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BootCondition", "ProbeScript", "parse_probe_script", "render_probe_script", "render_probe_unit"]

BootCondition: TypeAlias = Literal["always", "local-ipv6", "never"]
"""When the script rewrites: `local-ipv6` means if an interface has a global or unique local IPv6 address."""

# The script puts these into nft commands, so their form is checked, not only their letters.
_TABLE = r"[a-z][a-z0-9_]{0,63}"
_INTERFACE = r"[A-Za-z0-9_.-]{1,15}"


def _of_form(pattern: str) -> Callable[[object, attrs.Attribute[str], str], None]:
    def check(_: object, attribute: attrs.Attribute[str], value: str) -> None:
        import re  # noqa: PLC0415  loaded only if this script is rendered or parsed

        if not re.fullmatch(pattern, value):
            raise ValueError(f"{attribute.name}: {value!r} is not of the form {pattern}")

    return check


@attrs.frozen(kw_only=True)
class ProbeScript:
    """The settings of probe-rewrite.sh."""

    table: str = attrs.field(validator=_of_form(_TABLE))
    priority: int = attrs.field(converter=int)
    link_local: IPv6Address = attrs.field(converter=IPv6Address)
    global_address: IPv6Address = attrs.field(converter=IPv6Address)
    interfaces: tuple[str, ...] = attrs.field(
        validator=[attrs.validators.min_len(1), attrs.validators.deep_iterable(_of_form(_INTERFACE))]
    )
    ensure_route: bool = True
    """Whether the script adds a route for the replies by the first interface."""
    condition: BootCondition = attrs.field(validator=attrs.validators.in_(get_args(BootCondition)))
    protocol: int = OURS
    wait: int = DEFAULT_WAIT
    """The timeout in seconds for a device or an address."""


def render_probe_script(told: ProbeScript, *, layout: HostLayout | None = None) -> str:
    """The script that loads the table and adds the route, or deletes both, depending on the condition."""
    where = layout or HostLayout()
    settings = [
        f"table {told.table}",
        f"priority {told.priority}",
        f"link-local {told.link_local}",
        f"global {told.global_address}",
        *(f"interface {name}" for name in told.interfaces),
        f"route {'yes' if told.ensure_route else 'no'}",
        f"protocol {told.protocol}",
        f"metric {DEFAULT_METRIC[IPV6]}",
        f"condition {told.condition}",
        f"wait {told.wait}",
        f"state {where.state_directory}",
    ]
    return filled("probe-rewrite.sh", settings)


def parse_probe_script(text: str) -> ProbeScript:
    """The settings that were rendered; ValueError if the text is not such a script."""
    settings = settings_in(text)
    known = KnownSettings(settings)
    return ProbeScript(
        table=known["table"],
        priority=int(known["priority"]),
        link_local=IPv6Address(known["link-local"]),
        global_address=IPv6Address(known["global"]),
        interfaces=tuple(value for key, value in settings if key == "interface"),
        ensure_route=known["route"] == "yes",
        condition=cast("BootCondition", known["condition"]),
        protocol=int(known["protocol"]),
        wait=int(known["wait"]),
    )


def render_probe_unit(layout: HostLayout | None = None, *, wait: int = DEFAULT_WAIT) -> str:
    """The oneshot that sets up the rewrite of probes at every boot, whether or not a machine starts."""
    where = layout or HostLayout()
    return render_oneshot(
        "Let IPv6 probes of the load balancer reach the pods",
        after=FLUSHERS,
        command=where.probe_script,
        timeout=wait + GRACE,
        state_directory=where.state_directory,
        capabilities="CAP_NET_ADMIN",
        wanted_by="multi-user.target",
    )
