"""Make a host's routing right before its systemd-nspawn machine starts, and prove it.

What an agent puts into its pipeline
    ConfigureStaticRoutes, CheckRouteOverlap, Configure (both) and Remove: tasks for `phases`. Each takes a
    configuration and a Host: this machine, an image (`Host.offline`), or `hostrouting.testing.FakeHost`.

What the operator wrote
    HostRoutingConfig, with `from_json`, `from_mapping` and `load`; every fault at once in a ConfigError.

What a host's routing is
    Snapshot: links, addresses, rules and routes at one moment; a value that can be saved as JSON.

What follows from it
    Fib says what the kernel would do with a packet; `check_overlap` whether expected CIDRs leave by the expected
    devices; `propose_repair` the fewest routes that see to it; `plan_routes` the steps to the routes that are wanted.
    None of these reads or changes the host; a RouteBackend does (`hostrouting.backends`), and `apply_plan` carries a
    plan out whole or not at all.

How it is told
    `hostrouting.wording` has the sentences and documents.
"""

import phases

TYPE_CHECKING = False  # to load `typing` would cost a command that only prints its usage a third of its time
if TYPE_CHECKING:
    from hostrouting.apply import Applied, apply_plan
    from hostrouting.backends import RouteBackend
    from hostrouting.config import HostRoutingConfig, Mode, RouteOverlapConfig, StaticRoute, StaticRoutesConfig
    from hostrouting.errors import (
        ApplyError,
        BackendError,
        ConfigError,
        Fault,
        FileError,
        ForeignPhases,
        HostRoutingError,
        ManagerError,
        NotReady,
        RouteConflict,
        RouteExists,
        RouteOverlapError,
        RouteRefused,
        SnapshotError,
    )
    from hostrouting.fib import ANY, PLAIN, Cell, Condition, Decision, Fib, Flow, Variant
    from hostrouting.host import Host
    from hostrouting.layout import HostLayout
    from hostrouting.model import OURS, Address, Link, NextHop, Prefix, Route, Rule, Snapshot
    from hostrouting.overlap import Finding, Kept, Note, OverlapReport, Verdict, check_overlap
    from hostrouting.plan import RoutePlan, plan_routes
    from hostrouting.repair import Diversion, Repair, Unsafe, propose_repair
    from hostrouting.tasks import CheckRouteOverlap, Configure, ConfigureStaticRoutes, Remove
    from hostrouting.uplink import DesiredRoute, Pending, resolve_route

__version__ = "0.1.0"

# `phases` belongs to someone else on the package index, whose files would overwrite ours.
if getattr(phases, "__distribution__", None) != "hostrouting":
    from hostrouting.errors import ForeignPhases

    raise ForeignPhases(found=str(getattr(phases, "__file__", None) or "an unknown place"))

__all__ = [
    # what an agent puts into its pipeline
    "CheckRouteOverlap",
    "Configure",
    "ConfigureStaticRoutes",
    "Host",
    "HostLayout",
    "Remove",
    # what the operator wrote
    "HostRoutingConfig",
    "Mode",
    "RouteOverlapConfig",
    "StaticRoute",
    "StaticRoutesConfig",
    # what a host's routing is
    "Address",
    "Link",
    "NextHop",
    "Prefix",
    "Route",
    "Rule",
    "Snapshot",
    # what follows from it
    "ANY",
    "OURS",
    "PLAIN",
    "Applied",
    "Cell",
    "Condition",
    "Decision",
    "DesiredRoute",
    "Diversion",
    "Fib",
    "Finding",
    "Flow",
    "Kept",
    "Note",
    "OverlapReport",
    "Pending",
    "Repair",
    "RouteBackend",
    "RoutePlan",
    "Unsafe",
    "Variant",
    "Verdict",
    "apply_plan",
    "check_overlap",
    "plan_routes",
    "propose_repair",
    "resolve_route",
    # what goes wrong
    "ApplyError",
    "BackendError",
    "ConfigError",
    "Fault",
    "FileError",
    "ForeignPhases",
    "HostRoutingError",
    "ManagerError",
    "NotReady",
    "RouteConflict",
    "RouteExists",
    "RouteOverlapError",
    "RouteRefused",
    "SnapshotError",
    "__version__",
]

# Where each name lives; it is loaded when first asked for.
_HOMES = {
    "apply": ("Applied", "apply_plan"),
    "backends": ("RouteBackend",),
    "config": ("HostRoutingConfig", "Mode", "RouteOverlapConfig", "StaticRoute", "StaticRoutesConfig"),
    "errors": (
        "ApplyError",
        "BackendError",
        "ConfigError",
        "Fault",
        "FileError",
        "ForeignPhases",
        "HostRoutingError",
        "ManagerError",
        "NotReady",
        "RouteConflict",
        "RouteExists",
        "RouteOverlapError",
        "RouteRefused",
        "SnapshotError",
    ),
    "fib": ("ANY", "PLAIN", "Cell", "Condition", "Decision", "Fib", "Flow", "Variant"),
    "host": ("Host",),
    "layout": ("HostLayout",),
    "model": ("OURS", "Address", "Link", "NextHop", "Prefix", "Route", "Rule", "Snapshot"),
    "overlap": ("Finding", "Kept", "Note", "OverlapReport", "Verdict", "check_overlap"),
    "plan": ("RoutePlan", "plan_routes"),
    "repair": ("Diversion", "Repair", "Unsafe", "propose_repair"),
    "tasks": ("CheckRouteOverlap", "Configure", "ConfigureStaticRoutes", "Remove"),
    "uplink": ("DesiredRoute", "Pending", "resolve_route"),
}

if not TYPE_CHECKING:  # a type checker that saw it would believe any name
    __getattr__ = phases.lazily(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
