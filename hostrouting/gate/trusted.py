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

_FOLDERS = (HostLayout.config_directory, HostLayout.gate_directory)
_OUR_FILES = (HostLayout.config_path, HostLayout.program_path)


def find_untrusted(files: Files) -> Iterator[Finding]:
    """Why the gate refuses every start: a folder or a file of ours that others can change, or a
    script of another program that is not run.
    """
    yield from _open_folders(files)
    for path in (*_OUR_FILES, *foreign_scripts(files)):
        fault = why_not_trusted(files, path)
        if fault is not None:
            yield fault


def _open_folders(files: Files) -> Iterator[Finding]:
    """Folders of ours in which others than root can replace what root runs."""
    for folder in _FOLDERS:
        entry = files.look(folder)
        if entry is None:
            continue
        if entry.kind != "directory":
            sentence = f"{folder} is a {entry.kind}, and not a folder that only root can write to"
            yield _finding(folder, sentence, words="put a folder in its place")
        elif entry.is_open_to_others:
            sentence = f"users other than root can write to {folder}, and root runs what is there"
            yield _finding(folder, sentence, command=f"chown root {folder} && chmod 755 {folder}")


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


def why_not_trusted(files: Files, path: str) -> Finding | None:
    """Why root does not run, or believe, the file at this path; None if it does, or if nothing is
    there. `is_open_to_others` includes another owner.
    """
    entry = files.look(path)
    if entry is None:
        return None
    words = ""
    if entry.kind == "link":
        reason = f"{path} is a link"
        words = "put a copy of the file in its place"
    elif entry.kind != "file":
        reason = f"{path} is not a file"
        words = "move it away"
    elif not entry.is_trusted:
        reason = f"{path} does not belong to root"
    elif entry.is_open_to_others:
        reason = f"users other than root can write to {path}"
    else:
        return None
    sentence = f"{reason}, so the gate lets no unit pass"
    if words:
        return _finding(path, sentence, words=words)
    from shlex import quote  # noqa: PLC0415  whoever can write to the folder chooses the name

    command = f"chown root {quote(path)} && chmod go-w {quote(path)}"
    return _finding(path, sentence, command=command)


def _finding(path: str, sentence: str, *, words: str = "", command: str = "") -> Finding:
    from hostrouting.finding import Finding, Remedy  # noqa: PLC0415  see above

    return Finding("file", "error", sentence, path, Remedy(words, command))
