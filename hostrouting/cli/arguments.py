"""The arguments of the commands: a command names those that it has in `ARGUMENTS`."""

from __future__ import annotations

import argparse
from typing import Any

from hostrouting.finding import NAMES


def add_argument(parser: argparse.ArgumentParser, key: str) -> None:
    """Add one of the arguments below to the parser of a command."""
    metavar, meaning, settings = _ARGUMENTS[key]
    more: dict[str, Any] = {"metavar": metavar} if metavar else {"action": "store_true"}
    parser.add_argument(key.split(maxsplit=1)[0], help=meaning, **more, **settings)


def seconds(text: str) -> float:
    """A number of seconds, for argparse."""
    if not 0 <= (number := float(text)) <= 86_400:  # NaN fails, too
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400")
    return number


_MANY: dict[str, Any] = {"action": "append", "default": []}
_CONFIG = "the configuration, as JSON; - is standard input"
_ARGUMENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "cidrs": ("CIDR", "an expected CIDR, such as 172.16.0.0/16", {"nargs": "*"}),
    "address": ("ADDRESS", "where the packet goes, such as 172.16.5.9", {}),
    "cni": ("azure-vnet", "which CNI left it behind", {"choices": ["azure-vnet"]}),
    "--dev": ("DEV", "an expected device, instead of those of the default route; may be repeated", _MANY),
    "--config": ("FILE", _CONFIG, {}),
    "--config FILE": ("FILE", _CONFIG, {"required": True}),
    "--snapshot": ("FILE", "read this saved snapshot instead of this host; - is standard input", {}),
    "--snapshots": ("DIR", "check each snapshot in this directory; nodes with one problem are one row", _MANY),
    "--root": ("DIR", "where the image is mounted", {"required": True}),
    "--wait": (
        "SECONDS",
        "how long to wait for a default route or a device (default: 60)",
        {"type": seconds, "default": 60.0},
    ),
    "--fail-on": ("warning", "exit with 1 if a finding is a warning, too", {"choices": ["warning"]}),
    "--ignore": ("NAME", "excuse findings of this name; may be repeated", {"choices": NAMES} | _MANY),
    "--commands": ("", "print the commands that repair it until the next boot, instead of a configuration", {}),
    "--allow-removal": ("", "also if this takes away what protects the host", {}),
    "--apply": ("", "delete it; without this option nothing is changed", {}),
    "--json": ("", "print one JSON document", {}),
}
