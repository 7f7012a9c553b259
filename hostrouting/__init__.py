"""Correct a host's routing before its Kubernetes node starts, and prove that it is correct.

To write an agent, you need the tasks, the configuration and the errors. `hostrouting.testing` is
the test kit, with which you can try all of it on a host in memory::

    import phases
    from hostrouting import Configure, HostRoutingConfig
    from hostrouting.testing import FakeHost, h200

    overlap = {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"}
    config = HostRoutingConfig.from_mapping({"routeOverlap": overlap})
    configure = Configure(config, host=FakeHost(kernel=h200()))
    print(phases.plan(configure))  # the dry run
    print(phases.run(configure))  # fails, and says which routes repair it

More is in the packages: `hostrouting.config` (the sections of a configuration), `hostrouting.model`
(addresses, routes, rules), `hostrouting.fib` (what Linux does with a packet), `hostrouting.check`,
`hostrouting.routes` (planning and applying routes), `hostrouting.host`, `hostrouting.kernel`
(backends) and `hostrouting.fleet` (many nodes).
"""

from hostrouting.release import __version__ as __version__

TYPE_CHECKING = False  # importing `typing` would take five times as long as all of this
if TYPE_CHECKING:  # the names below once more, for type checkers
    from hostrouting.azure_vnet.task import CleanStaleAzureVnet as CleanStaleAzureVnet
    from hostrouting.check import (
        check_findings as check_findings,
        check_kernel as check_kernel,
        check_snapshot as check_snapshot,
    )
    from hostrouting.config import (
        HostRoutingConfig as HostRoutingConfig,
        RouteOverlapConfig as RouteOverlapConfig,
        StaticRoute as StaticRoute,
        StaticRoutesConfig as StaticRoutesConfig,
    )
    from hostrouting.errors import (
        ApplyError as ApplyError,
        BackendError as BackendError,
        ConfigError as ConfigError,
        HostError as HostError,
        HostRoutingError as HostRoutingError,
        NotReady as NotReady,
        RequirementError as RequirementError,
        RouteConflict as RouteConflict,
        RouteOverlapError as RouteOverlapError,
    )
    from hostrouting.finding import Finding as Finding
    from hostrouting.host import Host as Host, HostLayout as HostLayout
    from hostrouting.install.plan import Plan as Plan
    from hostrouting.install.results import CheckResult as CheckResult
    from hostrouting.kernel import RouteBackend as RouteBackend
    from hostrouting.kernel.netlink import NetlinkBackend as NetlinkBackend
    from hostrouting.kernel.pyroute2 import Pyroute2Backend as Pyroute2Backend
    from hostrouting.model import Route as Route, Snapshot as Snapshot
    from hostrouting.tasks.configure import Configure as Configure, Remove as Remove
    from hostrouting.tasks.overlap_check import CheckRouteOverlap as CheckRouteOverlap
    from hostrouting.tasks.probe_rewrite import RewriteProbeSource as RewriteProbeSource
    from hostrouting.tasks.static_routes import ConfigureStaticRoutes as ConfigureStaticRoutes

_MODULES = {
    "Configure": "tasks.configure",
    "Remove": "tasks.configure",
    "ConfigureStaticRoutes": "tasks.static_routes",
    "CheckRouteOverlap": "tasks.overlap_check",
    "CheckResult": "install.results",
    "Plan": "install.plan",
    "RewriteProbeSource": "tasks.probe_rewrite",
    "CleanStaleAzureVnet": "azure_vnet.task",
    "HostRoutingConfig": "config",
    "StaticRoutesConfig": "config",
    "StaticRoute": "config",
    "RouteOverlapConfig": "config",
    "HostRoutingError": "errors",
    "ConfigError": "errors",
    "RequirementError": "errors",
    "RouteConflict": "errors",
    "ApplyError": "errors",
    "RouteOverlapError": "errors",
    "NotReady": "errors",
    "HostError": "errors",
    "BackendError": "errors",
    "Finding": "finding",
    "check_kernel": "check",
    "check_snapshot": "check",
    "check_findings": "check",
    "Host": "host",
    "HostLayout": "host",
    "RouteBackend": "kernel",
    "NetlinkBackend": "kernel.netlink",
    "Pyroute2Backend": "kernel.pyroute2",
    "Snapshot": "model",
    "Route": "model",
}
"""Each public name, with the module that it is loaded from when it is first used."""

__all__ = list(_MODULES)
# For `help` and completion, which would miss the names that are not loaded yet.
__dir__ = __all__.copy

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # Python calls this for a name that the package does not have yet. Load the name from its
        # module only now, because to load all modules takes long.
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415  or `import_module` would be a name of this package

        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
