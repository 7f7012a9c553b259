"""`repair`: the configuration that repairs what check finds, as apply reads it.

The output is the file of --config, or else the installed configuration, with the routes added. A route that can use the
gateway and the device of the default route names neither, so the file fits other nodes with the same problem. Standard
error says what the repair costs, and what it cannot repair. If nothing escapes, no route is added. If nothing can be
repaired, nothing is printed, and the exit code is 1, or 3 if the check is undecided.
"""

import argparse
import json

from hostrouting.check.check import missing_routes
from hostrouting.check.report import repair_commands
from hostrouting.cli.check import make_check
from hostrouting.cli.output import FINE, PROBLEM, Answer, say
from hostrouting.cli.source import as_whom, find_config, with_cidrs
from hostrouting.config.settings import StaticRoutesConfig
from hostrouting.errors import NotReady, RouteOverlapError
from hostrouting.finding import ESCAPES
from hostrouting.host.host import Host
from hostrouting.text import first_of

ARGUMENTS = ("cidrs", "--config", "--snapshot", "--commands")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    known = find_config(arguments, host)
    check = make_check(config := with_cidrs(known, arguments.cidrs), host, arguments.snapshot)
    report, unsafe = check.report, [finding for finding in check.findings if finding.name == "unsafe"]
    every = (finding.remedy for finding in check.findings if unsafe and finding.remedy and finding.name in ESCAPES)
    remedies, there = first_of([*dict.fromkeys(every)]), as_whom(arguments)
    if report.verdict == "no-default-route":
        rules = [flaw for family in report.families for flaw in family.flaws if flaw.name == "missing-rule"]
        remedy = "; ".join(map(str, rules)) or "add a default route: a repair uses its gateway"
        raise NotReady(f"{report}; {remedy}".replace("as root", there))
    if report.escapes and not report.routes:
        reasons = "; ".join(first_of([*map(str, unsafe)])) or "no repair is known for packets of pods alone"
        raise RouteOverlapError("; ".join((reasons, *remedies)).replace("as root", there))
    cidrs = dict.fromkeys((*known.route_overlap.expected_cidrs, *config.route_overlap.expected_cidrs))
    config = config._replace(route_overlap=config.route_overlap._replace(expected_cidrs=tuple(cidrs)))
    missing, conflicts = missing_routes(config, report.families[0].judge.fib.snapshot)
    conflicts = conflicts if report.escapes else ()  # without an escape, the configuration stays as it is
    gone = {finding.target: finding.facts["held"] for finding in conflicts}  # another program's route holds its key
    keys, routes = {route.key for route in missing}, config.static_routes.routes
    kept = [route for route in routes if route.key not in keys and str(route.destination) not in gone]
    config = config._replace(static_routes=StaticRoutesConfig(bool(kept or missing), (*kept, *missing)))
    limits = [*unsafe, *(finding for finding in check.findings if finding.name == "repair-cost")]
    if not (is_decided := report.verdict != "undecided"):
        say("cannot tell whether a repair is needed:")
        limits = [doubt for family in report.families for doubt in family.doubts]
    for text in (f"nothing to repair: {report}",) if report.verdict == "ok" else (*map(str, limits), *remedies):
        say(text.replace("as root", there))
    for target, held in gone.items() if is_decided else ():
        say(f"{target} is left out: another program's route has the same destination and metric: [{held}]")
    code = PROBLEM if unsafe else FINE if report.verdict == "overlap" else check.code()
    printed = config.to_mapping()
    commands, findings = repair_commands(report.resolved), [finding.to_mapping() for finding in (*limits, *conflicts)]
    more = {"verdict": report.verdict, "config": printed, "commands": list(commands), "findings": findings}
    lines = commands if arguments.commands else json.dumps(printed, indent=2).splitlines()
    return Answer(code, {"schema": "hostrouting/repair/3", **more}, lines if is_decided else ())
