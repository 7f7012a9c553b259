"""Records with strace what a program does outside its own memory, between two marks."""

import re
from pathlib import Path

import attrs

BEGIN, END = "/mark/begin", "/mark/end"
"""Paths that a program passes to `os.access` to mark where its trace begins and ends."""

_CALLS = (
    "%process,%file,%network,write,writev,pwrite64,pwritev,sendfile,copy_file_range,ftruncate,fchmod,fchown,fallocate"
)

_PROCESS = re.compile(r"(?:fork|vfork|clone|clone3|execve|execveat)\(")
_OPENED = re.compile(r"(?:open|openat|openat2|creat)\(")
_TO_WRITE = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)|^creat")
_CHANGES = re.compile(
    r"(?:mkdir|rmdir|rename|unlink|link|symlink|chmod|fchmod|chown|fchown|lchown|truncate|ftruncate|mknod|utime|utimensat"
    r"|setxattr|fallocate|copy_file_range|sendfile)\w*\("
)
_WRITTEN = re.compile(r"(?:write|writev|pwrite64|pwritev)\(\d+<(/[^>]*)>")
_SENT = re.compile(r"(?:send|sendto|sendmsg|sendmmsg|write|writev)\(\d+<NETLINK:")
_TYPE = re.compile(r"nlmsg_type=(\w+)")


def command(program: list[str], log: Path) -> list[str]:
    """The command that runs a program and writes its trace to a file."""
    how = ["--follow-forks", "--decode-fds=all", "--no-abbrev", "--string-limit=65536", f"--trace={_CALLS}"]
    return ["strace", *how, f"--output={log}", *program]


@attrs.frozen
class Trace:
    """The effects: processes started, files changed, other programs contacted, and the types of netlink messages sent."""

    processes: tuple[str, ...]
    files: tuple[str, ...]
    connections: tuple[str, ...]
    messages: tuple[str, ...]

    @classmethod
    def read(cls, log: Path) -> "Trace":
        """Parse the part between the marks. Raises ValueError if a mark is missing."""
        lines = [line.split(maxsplit=1)[1] for line in log.read_text(errors="replace").splitlines()]
        begin, end = (
            next((number for number, line in enumerate(lines) if f'"{mark}"' in line), None) for mark in (BEGIN, END)
        )
        if begin is None or end is None:
            raise ValueError("the program did not come to both of its marks")
        between = lines[begin + 1 : end]
        return cls(
            tuple(line for line in between if _PROCESS.match(line) and "CLONE_THREAD" not in line),
            tuple(line for line in between if _is_change(line)),
            tuple(line for line in between if line.startswith("connect(")),
            tuple(kind for line in between if _SENT.match(line) for kind in _TYPE.findall(line) or ["unknown"]),
        )


def _is_change(line: str) -> bool:
    if _OPENED.match(line):
        return bool(_TO_WRITE.search(line))
    return bool(_CHANGES.match(line) or _WRITTEN.match(line))
