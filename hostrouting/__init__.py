"""Make a host's routing right before its systemd-nspawn machine starts, and prove it.

A tour, in the order in which the names are needed: an agent's author needs 1 and 2, who asks questions about a host
3 and 4, who changes one by other means than the tasks 5. Try all of it on a host in memory::

    import phases
    from hostrouting import Configure, HostRoutingConfig
    from hostrouting.testing import FakeHost, h200

    config = HostRoutingConfig.from_json('{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"}}')
    configure = Configure(config, host=FakeHost(kernel=h200()))
    print(phases.plan(configure))  # the dry run
    print(phases.run(configure))  # fails, and says which routes repair it

1. What an agent puts into its pipeline: tasks for `phases`, each made of a configuration and a host

    Configure               the next three, in order
    ConfigureStaticRoutes   the static routes, now and at every boot; nobody else's route is touched
    CheckRouteOverlap       whether every expected address leaves by an expected device, now and before every machine
    RewriteProbeSource      load-balancer probes over IPv6 reach the pods
    Remove                  everything of ours goes, and nothing else
    CleanStaleAzureVnet     what azure-vnet left behind for pods of another CNI goes; only where it is asked for
    UndoAzureVnetCleanup    and comes back
    RoutesResult            what ConfigureStaticRoutes did
    CheckResult             what CheckRouteOverlap found and did
    ProbeResult, Standing   what RewriteProbeSource did, and how it stands on the host
    CleanupResult           what CleanStaleAzureVnet found and did
    CleanupPlan             what it would do: what is stale, what stays, each with its reason
    UndoResult              what UndoAzureVnetCleanup brought back
    Host                    the host: `Host.local` is this machine, `Host.offline` an image, `Host.sandbox` a namespace
    HostLayout              every path and every name of ours on it

2. What the operator wrote: frozen values that are right or do not exist; a ConfigError has every fault at once

    HostRoutingConfig       all of it: `HostRoutingConfig.from_json`, `HostRoutingConfig.load`, or its constructor
    StaticRoutesConfig      the static routes, and the switch that says they are meant
    StaticRoute             one of them
    RouteOverlapConfig      which CIDRs must leave by which devices
    Mode                    what follows when one does not: WARN or STRICT
    ProbeRewriteConfig      how a load balancer's probes over IPv6 are rewritten, so that they reach the pods
    ProbeCondition          on which hosts that is done: always, local-ipv6 or imds
    ImdsConfig              how the instance metadata service is asked for it
    OnUnknown               what follows when that gives no usable answer: fail, apply or skip
    AzureVnetCleanupConfig  what another CNI manages now, and how careful the clean-up after azure-vnet is
    CleanupScope            what that looks for: rules of ebtables, neighbours, routes
    IfAzureVnetActive       what follows when azure-vnet is active still: fail, warn or ignore
    EbtablesChoice          which ebtables is asked: auto, nft or legacy

3. What a host's routing is: plain values

    Snapshot                links, addresses, rules and routes at one moment; saved by `Snapshot.to_json`
    Link, Address           a device, and an address of the host's own on it
    Route, NextHop          a route, and one of the ways that it may take
    Rule, default_rules     a policy rule, and those that every Linux begins with
    Prefix                  a range of addresses with a length, such as 172.16.0.0/16

4. What follows from it: values in, values out; no host is needed, and none is touched

    Fib                     what the kernel would do with a packet, for one address or for all of a prefix
    Flow, PLAIN, ANY        what is known of a packet besides where it goes; a plain one, and one not known at all
    Decision, Cell          what becomes of a packet, and a range of addresses for which that is one and the same
    Variant, Condition      what becomes of packets of which more is true, and what that is
    check_overlap           expected CIDRs and a Fib make an OverlapReport
    OverlapReport, Verdict  the verdict, and what it rests on
    Finding, Note, Kept     a range that escapes; packets that fare otherwise; a range that is the host's own
    Suppressed              a default route that a rule keeps plain packets from
    propose_repair          a Fib and an OverlapReport make a Repair
    Repair                  the fewest static routes that close every escape, with the proof that they do
    Diversion, Unsafe       what the repair costs, and what no static route can close
    plan_routes             routes that are wanted and a Snapshot make a RoutePlan
    DesiredRoute            a route that is wanted; what it leaves open is taken from the default route
    resolve_route, Pending  what such a route comes to on a host, or what it waits for
    RoutePlan               the steps from what is to what is wanted, each with its reason; printed, it is the dry run
    Foreseen                of these, a route that does not last, for an address brings another in its place
    OURS                    the route protocol number that marks a route as ours

5. What touches a kernel

    RouteBackend            what a backend promises; `hostrouting.backends` has the values that go in and out
    NetlinkBackend          Linux, by way of netlink; `hostrouting.testing` has the fake one
    apply_plan              carry out a RoutePlan whole or not at all
    Applied                 what that did

6. What goes wrong: `hostrouting.errors` draws the whole tree, and says whose fault each is

    HostRoutingError        the root: catch it to catch everything that is raised on purpose
    ConfigError, Fault      the configuration cannot be used, and each thing wrong with it
    SnapshotError           a text is no saved snapshot
    RouteConflict           a route that is wanted is somebody else's
    ApplyError              routes could not be applied; says what is true now
    RouteOverlapError       expected CIDRs escape, and the mode is STRICT
    NotReady                what was waited for did not come
    FileError               a file cannot be read, written or removed
    ManagerError            systemd does not answer, or a unit of ours failed
    BackendError            the kernel did not do what was asked
    RouteRefused            of these, what it says of one route
    RouteExists             of these, that another route holds the key
    CleanupRefused          something speaks against the clean-up; nothing was deleted
    CleanupIncomplete       not everything could be deleted, or brought back
    UndoFileError           a text is not an undo file
    ApprovedPlanError       a text is not a plan of a clean-up, or is about another host
    EbtablesError           ebtables did not do what was asked
    ForeignPhases           another project's `phases` is installed over ours

`hostrouting.testing` is the test kit, `hostrouting.wording` has the sentences and the JSON documents, and
`hostrouting.cli` is the command line.
"""

from hostrouting import own_phases

TYPE_CHECKING = False  # to load `typing` would cost a command that only prints its usage a third of its time
if TYPE_CHECKING:
    from hostrouting.apply import Applied, apply_plan
    from hostrouting.azure_vnet import CleanupPlan
    from hostrouting.backends.base import RouteBackend
    from hostrouting.backends.netlink import NetlinkBackend
    from hostrouting.config import (
        AzureVnetCleanupConfig,
        CleanupScope,
        EbtablesChoice,
        HostRoutingConfig,
        IfAzureVnetActive,
        ImdsConfig,
        Mode,
        OnUnknown,
        ProbeCondition,
        ProbeRewriteConfig,
        RouteOverlapConfig,
        StaticRoute,
        StaticRoutesConfig,
    )
    from hostrouting.errors import (
        ApplyError,
        ApprovedPlanError,
        BackendError,
        CleanupIncomplete,
        CleanupRefused,
        ConfigError,
        EbtablesError,
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
        UndoFileError,
    )
    from hostrouting.fib import ANY, PLAIN, Cell, Condition, Decision, Fib, Flow, Variant
    from hostrouting.host import Host
    from hostrouting.layout import HostLayout
    from hostrouting.model import OURS, Address, Link, NextHop, Prefix, Route, Rule, Snapshot, default_rules
    from hostrouting.overlap import Finding, Kept, Note, OverlapReport, Suppressed, Verdict, check_overlap
    from hostrouting.plan import Foreseen, RoutePlan, plan_routes
    from hostrouting.repair import Diversion, Repair, Unsafe, propose_repair
    from hostrouting.tasks import (
        CheckResult,
        CheckRouteOverlap,
        CleanStaleAzureVnet,
        CleanupResult,
        Configure,
        ConfigureStaticRoutes,
        ProbeResult,
        Remove,
        RewriteProbeSource,
        RoutesResult,
        Standing,
        UndoAzureVnetCleanup,
        UndoResult,
    )
    from hostrouting.uplink import DesiredRoute, Pending, resolve_route

__version__ = "0.1.0"

__all__ = [
    # what an agent puts into its pipeline
    "CheckResult",
    "CheckRouteOverlap",
    "CleanStaleAzureVnet",
    "CleanupPlan",
    "CleanupResult",
    "Configure",
    "ConfigureStaticRoutes",
    "Host",
    "HostLayout",
    "ProbeResult",
    "Remove",
    "RewriteProbeSource",
    "RoutesResult",
    "Standing",
    "UndoAzureVnetCleanup",
    "UndoResult",
    # what the operator wrote
    "AzureVnetCleanupConfig",
    "CleanupScope",
    "EbtablesChoice",
    "HostRoutingConfig",
    "IfAzureVnetActive",
    "ImdsConfig",
    "Mode",
    "OnUnknown",
    "ProbeCondition",
    "ProbeRewriteConfig",
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
    "default_rules",
    # what follows from it
    "ANY",
    "OURS",
    "PLAIN",
    "Cell",
    "Condition",
    "Decision",
    "DesiredRoute",
    "Diversion",
    "Fib",
    "Finding",
    "Flow",
    "Foreseen",
    "Kept",
    "Suppressed",
    "Note",
    "OverlapReport",
    "Pending",
    "Repair",
    "RoutePlan",
    "Unsafe",
    "Variant",
    "Verdict",
    "check_overlap",
    "plan_routes",
    "propose_repair",
    "resolve_route",
    # what touches a kernel
    "Applied",
    "NetlinkBackend",
    "RouteBackend",
    "apply_plan",
    # what goes wrong
    "ApplyError",
    "ApprovedPlanError",
    "BackendError",
    "CleanupIncomplete",
    "CleanupRefused",
    "ConfigError",
    "EbtablesError",
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
    "UndoFileError",
    "__version__",
]

# Where each name lives; it is loaded when first asked for.
_HOMES = {
    "apply": ("Applied", "apply_plan"),
    "azure_vnet": ("CleanupPlan",),
    "backends.base": ("RouteBackend",),
    "backends.netlink": ("NetlinkBackend",),
    "config": (
        "AzureVnetCleanupConfig",
        "CleanupScope",
        "EbtablesChoice",
        "HostRoutingConfig",
        "IfAzureVnetActive",
        "ImdsConfig",
        "Mode",
        "OnUnknown",
        "ProbeCondition",
        "ProbeRewriteConfig",
        "RouteOverlapConfig",
        "StaticRoute",
        "StaticRoutesConfig",
    ),
    "errors": (
        "ApplyError",
        "ApprovedPlanError",
        "BackendError",
        "CleanupIncomplete",
        "CleanupRefused",
        "ConfigError",
        "EbtablesError",
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
        "UndoFileError",
    ),
    "fib": ("ANY", "PLAIN", "Cell", "Condition", "Decision", "Fib", "Flow", "Variant"),
    "host": ("Host",),
    "layout": ("HostLayout",),
    "model": ("OURS", "Address", "Link", "NextHop", "Prefix", "Route", "Rule", "Snapshot", "default_rules"),
    "overlap": ("Finding", "Kept", "Note", "OverlapReport", "Suppressed", "Verdict", "check_overlap"),
    "plan": ("Foreseen", "RoutePlan", "plan_routes"),
    "repair": ("Diversion", "Repair", "Unsafe", "propose_repair"),
    "tasks": (
        "CheckResult",
        "CheckRouteOverlap",
        "CleanStaleAzureVnet",
        "CleanupResult",
        "Configure",
        "ConfigureStaticRoutes",
        "ProbeResult",
        "Remove",
        "RewriteProbeSource",
        "RoutesResult",
        "Standing",
        "UndoAzureVnetCleanup",
        "UndoResult",
    ),
    "uplink": ("DesiredRoute", "Pending", "resolve_route"),
}

if not TYPE_CHECKING:  # a type checker that saw it would believe any name
    if own_phases.foreign_phases() is None:
        import phases

        __getattr__ = phases.lazily(__name__, _HOMES, globals())
    else:

        def __getattr__(name: str) -> object:
            """Refuse each public name; what the command line needs to say so is not among them."""
            if name in __all__:
                own_phases.require_own_phases()
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
