"""Finds the files that root runs or reads when a unit starts, and that others can change. The gate
refuses every start because of them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.finding import Finding, Remedy
from hostrouting.host.files import follow_links
from hostrouting.host.layout import HostLayout
from hostrouting.text import command_of

if TYPE_CHECKING:
    from hostrouting.host.base import Files


def find_untrusted(files: Files, *others: str) -> Iterator[Finding]:
    """Yield an error for each file, folder or link by which users other than root can change what
    root runs or reads in the gate: config.json, the program, Python, the folder of the lock, and
    what is at the paths `others`. With one such error, the gate refuses every start.
    """
    command_of_untrusted: dict[str, str] = {}
    paths = (HostLayout.config_path, HostLayout.program_path, HostLayout.python_path, *others)
    ways = [_way_to(files, path) for path in paths]
    # Look at the folder of the lock, but not at /run above it, which may be as open as /tmp in a
    # container.
    ways.append(follow_links(files, HostLayout.run_directory))
    for way in ways:
        for place in way:
            entry = files.look(place)
            if entry and entry.is_open_to_others:
                # No command is proposed for what a user other than root (0) owns: it may be a link
                # to anywhere, or a home.
                command = "" if entry.owner else command_of("chmod go-w", place)
                if command and entry.kind == "file":
                    # Somebody may have the file open: `sed -i` puts a copy in its place. Here,
                    # `command_of` only quotes the path.
                    command += f" && sed -i '' {command_of(place)}"
                # The program is an archive, in which nobody can see what others have written. So it
                # is written anew, by the command `hostrouting`, which is another copy of it.
                if place == HostLayout.program_path:
                    command = f"hostrouting apply --config {HostLayout.config_path}"
                command_of_untrusted[place] = command
                break  # others decide what comes after this place, so it need not be looked at
    for place, command in command_of_untrusted.items():
        yield Finding(
            "file",
            "error",
            f"users other than root can change {place}, so the gate lets no unit pass",
            place,
            Remedy(
                "let only root own and change it, then look at what others may have written there "
                "(chown root, chmod go-w; `sed -i` writes a file anew, because somebody may have "
                "the old one open)",
                command,
            ),
        )


def _way_to(files: Files, path: str) -> Iterator[str]:
    """Yield every place by which somebody could change what is at this path: the path itself and
    all folders above it. For a link among these, also yield the path to which it leads, and all
    folders above that. If links form a loop, the places never end, but the caller's `look` fails.
    """
    for place in follow_links(files, path):
        yield place
        folder = posixpath.dirname(place)
        if folder != place:
            yield from _way_to(files, folder)
