"""`repair`: the configuration that repairs what check finds, as apply reads it.

The configuration includes the installed one, or the one that is named. Where the gateway and the device of the default
route are right, its routes name neither, so it fits other nodes with the same problem. What it costs, and what it
cannot repair, is written to standard error. Without a repair nothing is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from hostrouting.check.check import missing_routes
from hostrouting.cli.check import Check, make_check
from hostrouting.cli.failure import FINE, PROBLEM
from hostrouting.cli.output import Answer, say
from hostrouting.cli.source import GetHost, Question, read_question, written
from hostrouting.errors import NotReady, RouteOverlapError

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.finding import Finding

ARGUMENTS = ("cidrs", "--dev", "--config", "--snapshot", "--commands")


def run(arguments: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    question = read_question(arguments, host)
    check = make_check(arguments, question.config, host)
    report = check.report
    if report.verdict == "no-default-route":
        raise NotReady(f"{'; '.join(check.verdict_lines())}; name the expected device: --dev DEV")
    unsafe = [finding for finding in check.findings if finding.name == "unsafe"]
    if report.escapes and not report.routes:
        of_pods = "only packets of pods escape, by rules that no route in table main changes"
        raise RouteOverlapError(f"there is no repair: {'; '.join(map(str, unsafe)) or of_pods}")
    config, conflicts = _repaired(check, question)
    limits = [*unsafe, *(finding for finding in check.findings if finding.name == "repair-cost"), *conflicts]
    for finding in limits:
        say(str(finding))
    code = PROBLEM if unsafe else FINE if report.verdict == "overlap" else check.code()
    plain, commands = written(config), list(check.commands())
    told = {"config": plain, "commands": commands, "findings": [finding.to_mapping() for finding in limits]}
    document = {"schema": "hostrouting/repair/3", "verdict": report.verdict, **told}
    return Answer(code, document, commands if arguments.commands else json.dumps(plain, indent=2).splitlines())


def _repaired(check: Check, question: Question) -> tuple[HostRoutingConfig, tuple[Finding, ...]]:
    """The configuration with what the question adds to its check, and with the routes that repair the host.

    A route whose destination and metric another program holds is left out; the findings name those.
    """
    section, asked = question.base.route_overlap, question.config.route_overlap
    overlap = section._replace(
        expected_cidrs=tuple(dict.fromkeys((*section.expected_cidrs, *asked.expected_cidrs))),
        expected_devs=asked.expected_devs or section.expected_devs,
        mode=(section if section.cidrs else asked).mode,
    )
    config = question.base._replace(route_overlap=overlap)
    missing, conflicts = missing_routes(config, check.report.families[0].judge.fib.snapshot)
    left_out, keys = {finding.target for finding in conflicts}, {route.key for route in missing}
    kept = [route for route in config.static_routes.routes if str(route.destination) not in left_out]
    routes = (*(route for route in kept if route.key not in keys), *missing)
    static = {"enabled": bool(routes), "routes": [route.to_mapping() for route in routes]}
    return config._replace(static_routes=static), conflicts
