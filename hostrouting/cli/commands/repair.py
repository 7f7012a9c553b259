"""`repair`: the configuration that repairs what check finds, as apply reads it.

The configuration includes the installed one, or the one that is named. Where the gateway and the device of the default
route are right, its routes name neither, so it fits other nodes with the same problem. What it costs, and what it
cannot repair, is written to standard error. Without a repair nothing is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from hostrouting.cli.check import make_check, repaired_config
from hostrouting.cli.failure import FINE, PROBLEM
from hostrouting.cli.output import Answer, say
from hostrouting.cli.source import GetHost, add_options, read_question
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import NotReady, RouteOverlapError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See the module."""
    add_options(parser, "cidrs", "--dev", "--config", "--snapshot")
    meaning = "print the commands that repair it until the next boot, instead of a configuration"
    parser.add_argument("--commands", action="store_true", help=meaning)


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
    config, conflicts = repaired_config(check, question.config, question.base)
    limits = [*unsafe, *(finding for finding in check.findings if finding.name == "repair-cost"), *conflicts]
    for finding in limits:
        say(str(finding))
    code = PROBLEM if unsafe else FINE if report.verdict == "overlap" else check.code
    usual = HostRoutingConfig().to_mapping()
    plain = {name: _short(part) for name, part in config.to_mapping().items() if part != usual.get(name)}

    def document() -> dict[str, Any]:
        told = {"commands": list(check.commands()), "findings": [finding.to_mapping() for finding in limits]}
        return {"schema": "hostrouting/repair/3", "verdict": report.verdict, "config": plain, **told}

    lines = check.commands() if arguments.commands else json.dumps(plain, indent=2).splitlines()
    return Answer(code, document, lambda: lines)


def _short(part: Any) -> Any:
    """A part of the configuration without empty texts and lists, which are the default everywhere."""
    if isinstance(part, list):
        return [_short(member) for member in part]
    is_object = isinstance(part, dict)
    return {key: _short(value) for key, value in part.items() if value not in ("", [])} if is_object else part
