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
        exit_code as exit_code,
    )
    from hostrouting.finding import Finding as Finding
    from hostrouting.host import Host as Host, HostLayout as HostLayout
    from hostrouting.kernel import RouteBackend as RouteBackend
    from hostrouting.kernel.netlink import NetlinkBackend as NetlinkBackend
    from hostrouting.kernel.pyroute2 import Pyroute2Backend as Pyroute2Backend
    from hostrouting.model import Route as Route, Snapshot as Snapshot
    from hostrouting.tasks.configure import Configure as Configure, Remove as Remove
    from hostrouting.tasks.overlap_check import (
        CheckResult as CheckResult,
        CheckRouteOverlap as CheckRouteOverlap,
    )
    from hostrouting.tasks.probe_rewrite import RewriteProbeSource as RewriteProbeSource
    from hostrouting.tasks.static_routes import ConfigureStaticRoutes as ConfigureStaticRoutes
else:

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import sys  # noqa: PLC0415  any interpreter has these loaded already
        from importlib import import_module  # noqa: PLC0415

        try:
            value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        finally:
            phases = sys.modules.get("phases")
            if phases is not None and not hasattr(phases, "run_async"):
                raise ImportError(
                    f"the package phases in {phases.__file__} is another project's, in the place "
                    "of hostrouting's; run `pip uninstall phases`, then install hostrouting again"
                )
        return value


_CATALOGUE = """
Tasks for phases, each made from a configuration and a host
    tasks.configure          Configure Remove
    tasks.static_routes      ConfigureStaticRoutes
    tasks.overlap_check      CheckRouteOverlap CheckResult
    tasks.probe_rewrite      RewriteProbeSource
    azure_vnet.task          CleanStaleAzureVnet
The configuration, whose sections are frozen values, checked when they are made
    config                   HostRoutingConfig StaticRoutesConfig StaticRoute RouteOverlapConfig
Errors, all of them HostRoutingError, and findings
    errors                   HostRoutingError ConfigError RequirementError RouteConflict ApplyError
    errors                   RouteOverlapError NotReady HostError BackendError exit_code
    finding                  Finding
The check, of a kernel or of a snapshot
    check                    check_kernel check_snapshot check_findings
The host and its kernel
    host                     Host HostLayout
    kernel                   RouteBackend
    kernel.netlink           NetlinkBackend
    kernel.pyroute2          Pyroute2Backend
The routing of a host, as plain values
    model                    Snapshot Route
"""
"""Each public name, behind the package or module that it is loaded from when it is first used."""

_ROWS = (line.split() for line in _CATALOGUE.splitlines() if line.startswith(" "))
_MODULES = {name: module for module, *names in _ROWS for name in names}
__all__ = list(_MODULES)
__doc__ = f"{__doc__}{_CATALOGUE}"


def __dir__() -> "set[str]":  # in quotes, for the Python that __main__ refuses
    return {*globals(), *__all__}
