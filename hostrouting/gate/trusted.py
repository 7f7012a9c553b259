"""Finds the files that root runs or reads when a unit starts, and that others can write. The gate
refuses every start because of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.finding import Finding, Remedy
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.host.base import Files
    from hostrouting.host.files import Entry

_OURS = {
    HostLayout.config_directory: "directory",
    HostLayout.config_path: "file",
    HostLayout.program_path: "file",
}
"""The paths that only root may be able to change, each with the kind of entry that must be there.
"""


def find_untrusted(files: Files) -> Iterator[Finding]:
    """Yield an error for each folder or file of ours that others can change: the gate refuses every
    start because of it.
    """
    for path, kind in _OURS.items():
        entry = files.look(path)
        if entry is not None:
            yield from _faults_of(path, entry, kind)


def _faults_of(path: str, entry: Entry, kind: str) -> Iterator[Finding]:
    """Yield an error if the entry at this path is not of this kind, or not root's, or if others can
    write to it. The order counts: `is_open_to_others` is also true with another owner.
    """
    look_first = "look first at what others may have written there, then"
    remedy = Remedy(look_first, f"chown root {path} && chmod go-w {path}")
    if entry.kind != kind:
        reason = f"{path} is a {entry.kind}, and not a {kind}"
        remedy = Remedy(f"put a {kind} in its place")
    elif not entry.is_trusted:
        reason = f"{path} belongs to the user {entry.owner}, and not to root"
    elif entry.is_open_to_others:
        reason = f"users other than root can write to {path}"
    else:
        return
    sentence = f"{reason}, so the gate lets no unit pass"
    yield Finding("file", "error", sentence, path, remedy)
