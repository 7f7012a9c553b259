"""A newer program of the node, with another version, one more key, and another text of a unit."""

from functools import cache
from unittest import mock

from hostrouting.boot import program
from hostrouting.release import __version__

VERSION = "99.0.0"
KEY = "sinceNinetyNine"
"""Of `routeOverlap`; what it is for makes no difference."""
RESTARTS_AFTER = 61
"""Seconds, of static-routes.service."""
_FIELD = "    intended_rules: tuple[Selection, ...] = ()\n"
_CHANGES = {
    "hostrouting/release.py": (f'"{__version__}"', f'"{VERSION}"'),
    "hostrouting/config/settings.py": (_FIELD, f"{_FIELD}    since_ninety_nine: bool = False\n"),
    "hostrouting/boot/units.py": ('"RestartSec=60"', f'"RestartSec={RESTARTS_AFTER}"'),
}


@cache
def newer_program() -> bytes:
    """Its sources alone: it starts more slowly, and no compiler has to run."""
    sources = {**program.sources_of_program()}
    for name, (before, after) in _CHANGES.items():
        text = sources[name].decode()
        assert text.count(before) == 1
        sources[name] = text.replace(before, after).encode()
    with (
        mock.patch.object(program, "sources_of_program", return_value=sources),
        mock.patch.object(program, "sources_digest", program.sources_digest.__wrapped__),
    ):
        return program.pack(sources)
