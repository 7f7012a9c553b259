"""The command line that repairs a host for good: `hostrouting repair … | hostrouting apply …`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from hostrouting.release import our_command


def repair_line(options: str = "") -> str:
    """The command line to type, which repairs a host for good. `options` come after the word
    `repair` and say which configuration is repaired. They begin with a space, or are empty.
    """
    return f"{our_command(f'repair{options}')} | {our_command('apply --config -')}"


def line_to_allow(options: str, devs: Iterable[str]) -> str:
    """The command line to type if packets are meant to leave through these devices. It allows the
    devices (`allowedDevs`), so these packets are fine, and only what else escapes is repaired.
    `options` say which configuration is repaired.
    """
    return repair_line(options + repeated_option("--allow", devs))


def repeated_option(option: str, values: Iterable[str]) -> str:
    """The option once for each of these values, quoted for the shell."""
    return "".join(f" {option} {shlex.quote(value)}" for value in values)
