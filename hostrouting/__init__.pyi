# fmt: off
# Each public name: once, with its module and what it is. `help(hostrouting)` shows it; `__init__.py` loads it.
from hostrouting.release import __version__ as __version__

# 1. For the pipeline of an agent: tasks for `phases`, each made from a configuration and a host
from hostrouting.tasks.configure import Configure as Configure  # all that the configuration asks for, in order
from hostrouting.tasks.static_routes import ConfigureStaticRoutes as ConfigureStaticRoutes  # adds the static routes, now and at every boot
from hostrouting.tasks.overlap_check import CheckRouteOverlap as CheckRouteOverlap  # checks that expected addresses leave by an expected device
from hostrouting.tasks.probe_rewrite import RewriteProbeSource as RewriteProbeSource  # makes load-balancer probes over IPv6 reach the pods
from hostrouting.tasks.configure import Remove as Remove  # removes everything that hostrouting installed, and nothing else
from hostrouting.tasks.cleanup.task import CleanStaleAzureVnet as CleanStaleAzureVnet  # deletes what azure-vnet left; runs only if you call it
from hostrouting.tasks.results import RoutesResult as RoutesResult, CheckResult as CheckResult  # what these tasks found and did; the others return Effects
from hostrouting.tasks.cleanup.task import CleanupResult as CleanupResult  # what a clean-up did
from hostrouting.tasks.results import Plan as Plan  # what a task would do now
from hostrouting.boot.files import files_of as files_of  # every file that a configuration makes on a host: path, text and mode
from hostrouting.host.fileset import File as File  # one of them
from hostrouting.check.check import check_host as check_host, check_snapshot as check_snapshot  # the check of a kernel, now, or of a Snapshot; each makes a CheckReport
from hostrouting.check.check import CheckReport as CheckReport, FamilyReport as FamilyReport, Escape as Escape  # all of one check; its part for each family, with the repair; a range that escapes
from hostrouting.check.check import Verdict as Verdict  # its verdict
from hostrouting.check.report import check_findings as check_findings, check_document as check_document  # a CheckReport as findings, and as the JSON document
from hostrouting.finding import Finding as Finding  # one thing to tell an operator: its name, severity, sentence, target and remedy
from hostrouting.tasks.cleanup.task import CleanupPlan as CleanupPlan  # what a clean-up would do
from hostrouting.tasks.cleanup.judge import CleanupEntry as CleanupEntry  # one thing of it
from hostrouting.host.effects import Operation as Operation, Effects as Effects  # one thing that a task does, and all that it has done: the result of most tasks
from hostrouting.host.host import Host as Host  # the host: `Host.local` is this host, `Host.offline` an image, `Host.sandbox` a namespace
from hostrouting.host.layout import HostLayout as HostLayout  # every path and name that hostrouting uses on it

# 2. The configuration: frozen values, checked when they are made; a ConfigError has every fault at once
from hostrouting.config.settings import HostRoutingConfig as HostRoutingConfig  # all of it: `HostRoutingConfig.from_json`, `HostRoutingConfig.load`
from hostrouting.config.settings import StaticRoutesConfig as StaticRoutesConfig, StaticRoute as StaticRoute  # the static routes, with the switch that enables them, and one of them
from hostrouting.config.settings import RouteOverlapConfig as RouteOverlapConfig  # which CIDRs must leave by which devices
from hostrouting.config.settings import IntendedRule as IntendedRule  # a policy rule that sends some packets elsewhere on purpose
from hostrouting.config.values import Mode as Mode  # what happens if a CIDR does not leave as it must: WARN or STRICT
from hostrouting.config.settings import ProbeRewriteConfig as ProbeRewriteConfig  # how a load balancer's probes over IPv6 are rewritten
from hostrouting.config.settings import GateConfig as GateConfig  # the units that do not start before the routing is right
from hostrouting.config.settings import GuardConfig as GuardConfig  # whether the guard runs as a service
from hostrouting.config.settings import AzureVnetCleanupConfig as AzureVnetCleanupConfig  # what another CNI manages now, and how careful the clean-up is

# 3. Errors: `hostrouting.errors` draws the whole tree, and says where the fault of each is
from hostrouting.errors import HostRoutingError as HostRoutingError  # the root: catch it to catch everything that is raised on purpose
from hostrouting.errors import ConfigError as ConfigError, Fault as Fault  # a configuration or a snapshot cannot be used; each fault in it
from hostrouting.errors import RequirementError as RequirementError  # the host lacks something that the configuration needs
from hostrouting.errors import RouteConflict as RouteConflict  # a route that is not ours holds the key of a wanted route
from hostrouting.errors import ApplyError as ApplyError  # routes could not be applied; says what is true now
from hostrouting.errors import RouteOverlapError as RouteOverlapError  # expected CIDRs escape, and the mode is STRICT; `repair` has the remedy
from hostrouting.errors import NotReady as NotReady  # something was still missing at the deadline, or the lock was held
from hostrouting.errors import HostError as HostError  # a file, systemd, nft or ebtables did not do what was asked
from hostrouting.errors import BackendError as BackendError  # the kernel did not do what was asked

# 4. The routing of a host, as plain values
from hostrouting.model.snapshot import Snapshot as Snapshot  # devices, addresses, rules and routes at one moment; saved by `Snapshot.to_json`
from hostrouting.model.snapshot import Link as Link, Address as Address  # a device, and an address of this host on it
from hostrouting.model.route import Route as Route, NextHop as NextHop  # a route, and one of its next hops
from hostrouting.model.rule import Rule as Rule, default_rules as default_rules  # a policy rule, and the rules that every Linux starts with
from hostrouting.model.prefix import Prefix as Prefix, IP as IP  # a network with its length, such as 172.16.0.0/16; an address
from hostrouting.model.route import OURS as OURS  # the route protocol number that marks a route as ours

# 5. Conclusions; functions from values to values, which need and touch no host
from hostrouting.fib.engine import Fib as Fib  # what the kernel does with a packet, for one address or for all of a prefix
from hostrouting.fib.engine import Decision as Decision, Cell as Cell  # what happens to a packet, and a range of addresses with one decision
from hostrouting.check.repair import Repair as Repair  # the fewest routes that close what escapes, with what they cost
from hostrouting.routes.uplink import DesiredRoute as DesiredRoute  # a wanted route, of which device and gateway may be left open
from hostrouting.routes.plan import plan_routes as plan_routes, RoutePlan as RoutePlan  # makes a RoutePlan from wanted routes and a Snapshot; printed, it is the dry run

# 6. Access to a kernel
from hostrouting.kernel.base import RouteBackend as RouteBackend  # what a backend promises; `hostrouting.kernel` has its input and output values
from hostrouting.kernel.netlink import NetlinkBackend as NetlinkBackend  # Linux, through netlink; `hostrouting.testing` has the fake one
from hostrouting.routes.apply import apply_plan as apply_plan, Applied as Applied  # carries out a RoutePlan completely or not at all; what that did
