"""Correct a host's routing before its systemd-nspawn machine starts, and prove that it is correct.

This is a tour of the names. To write an agent, you need 1 and 2; to ask questions about a host, 3 and 4; to change a
host without the tasks, 5. You can try all of it on a host in memory::

    import phases
    from hostrouting import Configure, HostRoutingConfig
    from hostrouting.testing import FakeHost, h200

    config = HostRoutingConfig.from_json('{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"}}')
    configure = Configure(config, host=FakeHost(kernel=h200()))
    print(phases.plan(configure))  # the dry run
    print(phases.run(configure))  # fails, and says which routes repair it

1. For the pipeline of an agent: tasks for `phases`, each made from a configuration and a host

    Configure               the next four, in order
    ConfigureStaticRoutes   adds the static routes, now and at every boot; never touches a route that is not ours
    CheckRouteOverlap       checks that every expected address leaves by an expected device, now and before each machine
    RewriteProbeSource      makes load-balancer probes over IPv6 reach the pods
    InstallGuard            installs the service that runs Guard, if the configuration enables it
    Preflight               finds what would make a bootstrap, the next machine or a reboot fail; changes nothing
    Remove                  removes everything that hostrouting installed, and nothing else
    Guard                   keeps right what they installed, until it is told to stop
    Orders                  tells a running Guard to read its configuration again, or to look
    CleanStaleAzureVnet     deletes what azure-vnet left behind for pods of another CNI; runs only if you call it
    UndoCleanup             restores what that deleted
    Cleanup                 the base class of such a task, for another CNI: a subclass says what is stale
    RoutesResult            what ConfigureStaticRoutes did
    CheckResult             what CheckRouteOverlap found and did
    PreflightResult         what Preflight found
    Finding                 one thing to tell an operator: its name, severity, sentence, target and remedy
    ProbeResult, Standing   what RewriteProbeSource did, and its state on the host
    GuardResult             what InstallGuard did
    CleanupResult           what CleanStaleAzureVnet found and did
    CleanupPlan             what it would do: what is stale, what is kept, each with its reason
    CleanupEntry            one rule, neighbour, route or listed pod of such a plan
    CleanupFacts            what is known about the host when the plan is made
    UndoResult              what UndoCleanup restored
    Host                    the host: `Host.local` is this host, `Host.offline` an image, `Host.sandbox` a namespace
    HostLayout              every path and name that hostrouting uses on it

2. The configuration: frozen values, checked when they are made; a ConfigError has every fault at once

    HostRoutingConfig       all of it: `HostRoutingConfig.from_json`, `HostRoutingConfig.load`, or its constructor
    StaticRoutesConfig      the static routes, and the switch that enables them
    StaticRoute             one of them
    RouteOverlapConfig      which CIDRs must leave by which devices
    IntendedRule            a policy rule that sends some packets elsewhere on purpose
    Mode                    what happens if one does not: WARN or STRICT
    ProbeRewriteConfig      how a load balancer's probes over IPv6 are rewritten so that they reach the pods
    ProbeCondition          on which hosts this is done: always, local-ipv6 or imds
    ImdsConfig              how the instance metadata service is asked about it
    OnUnknown               what happens if it gives no usable answer: fail, apply or skip
    GuardConfig             whether the guard runs as a service
    AzureVnetCleanupConfig  what another CNI manages now, and how careful the clean-up after azure-vnet is
    StateFile               what happens to pods in azure-vnet's state file that are gone: read or prune
    EbtablesChoice          which ebtables is used: auto, nft or legacy

3. The routing of a host: plain values

    Snapshot                devices, addresses, rules and routes at one moment; saved by `Snapshot.to_json`
    Link, Address           a device, and an address of this host on it
    Route, NextHop          a route, and one of its next hops
    Rule, default_rules     a policy rule, and the rules that every Linux starts with
    Prefix                  a network with its length, such as 172.16.0.0/16

4. Conclusions: functions from values to values; no host is needed or touched

    Fib                     what the kernel would do with a packet, for one address or for all of a prefix
    Flow, PLAIN, ANY        what is known about a packet apart from its destination; a plain one, and an unknown one
    Decision, Cell          what happens to a packet, and a range of addresses with one decision
    Variant, Condition      a different decision for some packets, and the conditions for it
    check_overlap           makes an OverlapReport from expected CIDRs and a Fib
    OverlapReport, Verdict  the verdict, and the evidence for it
    Escape, Note, Kept     a range that escapes; packets that are treated differently; a range of the host itself
    Suppressed              a default route that a rule suppresses for plain packets
    propose_repair          makes a Repair from a Fib and an OverlapReport
    Examination             all of one check: verdict, findings and the `routes` that repair them, both IP versions
    Repair                  the fewest static routes that close every escape, with the proof that they do
    Diversion, Unsafe       what the repair costs, and what no static route can close
    plan_routes             makes a RoutePlan from wanted routes and a Snapshot
    DesiredRoute            a wanted route; missing fields come from the default route
    resolve_route, Pending  the complete route on a host, or what is missing for it
    RoutePlan               the steps from the present routes to the wanted ones; printed, it is the dry run
    Foreseen                a wanted route that will not last, because the kernel adds its own for an address
    OURS                    the route protocol number that marks a route as ours

5. Access to a kernel

    RouteBackend            what a backend promises; `hostrouting.kernel` has its input and output values
    NetlinkBackend          Linux, through netlink; `hostrouting.testing` has the fake one
    apply_plan              carries out a RoutePlan completely or not at all
    Applied                 what that did

6. Errors: `hostrouting.errors` draws the whole tree, and says where the fault of each is

    HostRoutingError        the root: catch it to catch everything that is raised on purpose
    ConfigError, Fault      the configuration cannot be used; each fault in it
    InputError              a file is not a snapshot, an undo file or an approved plan, as its kind says
    RouteConflict           a route that is not ours holds the key of a wanted route
    ApplyError              routes could not be applied; says what is true now
    RouteOverlapError       expected CIDRs escape, and the mode is STRICT; `repair` has the routes that repair it
    PreflightFailed         a preflight found errors; `repair` as in RouteOverlapError
    CleanupError            what azure-vnet left behind could not be deleted, or restored
    NotReady                something was still missing at the deadline
    FileError               a file cannot be read, written or removed
    ManagerError            systemd does not answer, or one of our units failed
    ProgramError            nft or ebtables did not do what was asked
    BackendError            the kernel did not do what was asked
    RouteRefused            a BackendError about one route
    ForeignPhases           another project's `phases` is installed over ours

`hostrouting.testing` is the test kit, `hostrouting.check.report` has the sentences and the JSON documents, and
`hostrouting.cli` is the command line.
"""

import sys

# On an older Python, `__main__` prints one line. Nothing else of ours can be loaded there.
_IS_TOO_OLD = tuple(sys.version_info) < (3, 10)
if not _IS_TOO_OLD:
    from hostrouting import installation
    from hostrouting.release import __version__

TYPE_CHECKING = False  # loading `typing` would take a third of the time of a command that only prints its usage
if TYPE_CHECKING:
    from hostrouting.check.examine import Examination
    from hostrouting.check.overlap import Escape, Kept, Note, OverlapReport, Suppressed, Verdict, check_overlap
    from hostrouting.check.repair import Diversion, Repair, Unsafe, propose_repair
    from hostrouting.config import (
        AzureVnetCleanupConfig,
        EbtablesChoice,
        GuardConfig,
        HostRoutingConfig,
        ImdsConfig,
        IntendedRule,
        Mode,
        OnUnknown,
        ProbeCondition,
        ProbeRewriteConfig,
        RouteOverlapConfig,
        StateFile,
        StaticRoute,
        StaticRoutesConfig,
    )
    from hostrouting.errors import (
        ApplyError,
        BackendError,
        CleanupError,
        ConfigError,
        Fault,
        FileError,
        ForeignPhases,
        HostRoutingError,
        InputError,
        ManagerError,
        NotReady,
        PreflightFailed,
        ProgramError,
        RouteConflict,
        RouteOverlapError,
        RouteRefused,
    )
    from hostrouting.fib import ANY, PLAIN, Cell, Condition, Decision, Fib, Flow, Variant
    from hostrouting.finding import Finding
    from hostrouting.host.host import Host
    from hostrouting.host.layout import HostLayout
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.kernel.netlink import NetlinkBackend
    from hostrouting.model import OURS, Address, Link, NextHop, Prefix, Route, Rule, Snapshot, default_rules
    from hostrouting.routes.apply import Applied, apply_plan
    from hostrouting.routes.plan import Foreseen, RoutePlan, plan_routes
    from hostrouting.routes.uplink import DesiredRoute, Pending, resolve_route
    from hostrouting.tasks import (
        CheckResult,
        CheckRouteOverlap,
        CleanStaleAzureVnet,
        Cleanup,
        CleanupEntry,
        CleanupFacts,
        CleanupPlan,
        CleanupResult,
        Configure,
        ConfigureStaticRoutes,
        Guard,
        GuardResult,
        InstallGuard,
        Orders,
        Preflight,
        PreflightResult,
        ProbeResult,
        Remove,
        RewriteProbeSource,
        RoutesResult,
        Standing,
        UndoCleanup,
        UndoResult,
    )

__all__ = [
    # for the pipeline of an agent
    "CheckResult",
    "CheckRouteOverlap",
    "CleanStaleAzureVnet",
    "Cleanup",
    "CleanupEntry",
    "CleanupFacts",
    "CleanupPlan",
    "CleanupResult",
    "Configure",
    "ConfigureStaticRoutes",
    "Host",
    "HostLayout",
    "Guard",
    "GuardResult",
    "InstallGuard",
    "Orders",
    "Finding",
    "Preflight",
    "PreflightResult",
    "ProbeResult",
    "Remove",
    "RewriteProbeSource",
    "RoutesResult",
    "Standing",
    "UndoCleanup",
    "UndoResult",
    # the configuration
    "AzureVnetCleanupConfig",
    "EbtablesChoice",
    "GuardConfig",
    "HostRoutingConfig",
    "ImdsConfig",
    "IntendedRule",
    "Mode",
    "OnUnknown",
    "ProbeCondition",
    "ProbeRewriteConfig",
    "RouteOverlapConfig",
    "StateFile",
    "StaticRoute",
    "StaticRoutesConfig",
    # the routing of a host
    "Address",
    "Link",
    "NextHop",
    "Prefix",
    "Route",
    "Rule",
    "Snapshot",
    "default_rules",
    # conclusions
    "ANY",
    "OURS",
    "PLAIN",
    "Cell",
    "Condition",
    "Decision",
    "DesiredRoute",
    "Diversion",
    "Examination",
    "Fib",
    "Escape",
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
    # access to a kernel
    "Applied",
    "NetlinkBackend",
    "RouteBackend",
    "apply_plan",
    # errors
    "ApplyError",
    "BackendError",
    "CleanupError",
    "ConfigError",
    "Fault",
    "FileError",
    "ForeignPhases",
    "HostRoutingError",
    "ManagerError",
    "NotReady",
    "PreflightFailed",
    "RouteConflict",
    "RouteOverlapError",
    "RouteRefused",
    "InputError",
    "ProgramError",
    "__version__",
]

# The module of each name; it is imported when the name is first used.
_HOMES = {
    "routes.apply": ("Applied", "apply_plan"),
    "kernel.base": ("RouteBackend",),
    "kernel.netlink": ("NetlinkBackend",),
    "config": (
        "AzureVnetCleanupConfig",
        "EbtablesChoice",
        "GuardConfig",
        "HostRoutingConfig",
        "ImdsConfig",
        "IntendedRule",
        "Mode",
        "OnUnknown",
        "ProbeCondition",
        "ProbeRewriteConfig",
        "RouteOverlapConfig",
        "StateFile",
        "StaticRoute",
        "StaticRoutesConfig",
    ),
    "errors": (
        "ApplyError",
        "BackendError",
        "CleanupError",
        "ConfigError",
        "Fault",
        "FileError",
        "ForeignPhases",
        "HostRoutingError",
        "ManagerError",
        "NotReady",
        "PreflightFailed",
        "RouteConflict",
        "RouteOverlapError",
        "RouteRefused",
        "InputError",
        "ProgramError",
    ),
    "check.examine": ("Examination",),
    "fib": ("ANY", "PLAIN", "Cell", "Condition", "Decision", "Fib", "Flow", "Variant"),
    "finding": ("Finding",),
    "host.host": ("Host",),
    "host.layout": ("HostLayout",),
    "model": ("OURS", "Address", "Link", "NextHop", "Prefix", "Route", "Rule", "Snapshot", "default_rules"),
    "check.overlap": ("Escape", "Kept", "Note", "OverlapReport", "Suppressed", "Verdict", "check_overlap"),
    "routes.plan": ("Foreseen", "RoutePlan", "plan_routes"),
    "check.repair": ("Diversion", "Repair", "Unsafe", "propose_repair"),
    "tasks": (
        "CheckResult",
        "CheckRouteOverlap",
        "CleanStaleAzureVnet",
        "Cleanup",
        "CleanupEntry",
        "CleanupFacts",
        "CleanupPlan",
        "CleanupResult",
        "Configure",
        "ConfigureStaticRoutes",
        "Guard",
        "GuardResult",
        "InstallGuard",
        "Orders",
        "Preflight",
        "PreflightResult",
        "ProbeResult",
        "Remove",
        "RewriteProbeSource",
        "RoutesResult",
        "Standing",
        "UndoCleanup",
        "UndoResult",
    ),
    "routes.uplink": ("DesiredRoute", "Pending", "resolve_route"),
}

if not (TYPE_CHECKING or _IS_TOO_OLD):  # with a module __getattr__, a type checker would accept any name
    if installation.foreign_phases() is None:
        import phases

        __getattr__ = phases.lazily(__name__, _HOMES, globals())
    else:

        def __getattr__(name: str) -> object:
            """Raise an error for each public name; the command line can still import what it needs to report it."""
            if name in __all__:
                installation.require_own_phases()
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> "list[str]":  # quoted: Python 3.8 has no list[str]
    return sorted(set(globals()) | set(__all__))
