"""What root runs or believes when a unit starts, and who else could have written it. The gate
refuses a start rather than run what a user other than root can change; `status` and `plan` say it.
"""

from __future__ import annotations

from hostrouting.host.layout import HostLayout

TYPE_CHECKING = False  # a start of a gated unit has no time to load `typing`, or the findings
if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.finding import Finding
    from hostrouting.host.base import Files
    from hostrouting.host.files import Entry

_OURS = {
    HostLayout.config_directory: "directory",
    HostLayout.gate_directory: "directory",
    HostLayout.config_path: "file",
    HostLayout.program_path: "file",
}
"""What has to be a folder or a file that only root can change."""


def find_untrusted(files: Files) -> Iterator[Finding]:
    """Why the gate refuses every start: a folder or a file of ours that others can change, or a
    script of another program that is not run.
    """
    for path, kind in {**_OURS, **dict.fromkeys(foreign_scripts(files), "file")}.items():
        entry = files.look(path)
        if entry is not None:
            yield from _faults_of(path, entry, kind)


def foreign_scripts(files: Files) -> tuple[str, ...]:
    """The scripts in gate.d, which are other programs': they also hold gated units back. Those that
    an earlier release of ours has left are never run.
    """
    folder = HostLayout.gate_directory
    scripts: list[str] = []
    for name in files.names(folder):
        is_script = name.endswith(".sh") and not name.startswith(".")
        if is_script and name not in HostLayout.former_scripts:
            scripts.append(f"{folder}/{name}")
    return tuple(scripts)


def foreign_owner(entry: Entry) -> str:
    """That this belongs to another user, as the end of a sentence. The name is the one that this
    machine has for the user.
    """
    from pwd import getpwuid  # noqa: PLC0415  only a refusal needs it

    try:
        owner = getpwuid(entry.owner).pw_name
    except KeyError:
        owner = f"the user {entry.owner}"
    return f"belongs to {owner}, and not to root"


def _faults_of(path: str, entry: Entry, kind: str) -> Iterator[Finding]:
    """Why root does not run, or believe, what is at this path, which has to be of this kind.
    `is_open_to_others` includes another owner.
    """
    words = ""
    if entry.kind != kind:
        reason = f"{path} is a {entry.kind}, and not a {kind}"
        words = f"put a {kind} in its place"
    elif not entry.is_trusted:
        reason = f"{path} {foreign_owner(entry)}"
    elif entry.is_open_to_others:
        reason = f"users other than root can write to {path}"
    else:
        return
    from shlex import quote  # noqa: PLC0415  only a refusal needs it

    from hostrouting.finding import Finding, Remedy  # noqa: PLC0415  only a refusal needs it

    # Whoever can write to the folder of scripts chooses their names.
    command = ""
    if not words:
        words = "look first at what others may have written there, then"
        command = f"chown root {quote(path)} && chmod go-w {quote(path)}"
    sentence = f"{reason}, so the gate lets no unit pass"
    yield Finding("file", "error", sentence, path, Remedy(words, command))
