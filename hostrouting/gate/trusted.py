"""What root runs or believes when a unit starts, and who else could have written it. The gate
refuses a start rather than run what a user other than root can change; `status` and `plan` say it.
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
"""What has to be a folder or a file that only root can change."""


def find_untrusted(files: Files) -> Iterator[Finding]:
    """Why the gate refuses every start: a folder or a file of ours that others can change."""
    for path, kind in _OURS.items():
        entry = files.look(path)
        if entry is not None:
            yield from _faults_of(path, entry, kind)


def _faults_of(path: str, entry: Entry, kind: str) -> Iterator[Finding]:
    """Why root does not run, or believe, what is at this path, which has to be of this kind.
    `is_open_to_others` includes another owner.
    """
    words = "look first at what others may have written there, then"
    remedy = Remedy(words, f"chown root {path} && chmod go-w {path}")
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
