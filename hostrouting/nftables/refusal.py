"""From nft's text to the error that an operator reads: its class, and the remedy.

Here: one sentence for each kind of error, the same for nft and for the fake one. Not here: when nft refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.errors import NftablesError, NftMissing, NftNotPermitted, NftRefused, NftTimeout, NftTooOld, TableOwned

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "is_about_permission",
    "is_absent",
    "missing",
    "not_permitted",
    "owned",
    "refused",
    "tidied",
    "timed_out",
    "too_old",
]

_ABSENT = "No such file or directory"
_DENIED = "Operation not permitted"
_NO_JSON = ("JSON support not compiled-in", "invalid option -- 'j'", "unrecognized option: j")


def missing() -> NftMissing:
    """The program nft is not installed."""
    return NftMissing("the program nft is not in PATH; install the package nftables")


def too_old(words: str = "") -> NftTooOld:
    """The program nft has no JSON support."""
    return NftTooOld(
        "this nft has no JSON support, which exists since 0.9.0; install a newer package nftables", nft=words
    )


def not_permitted(words: str = "") -> NftNotPermitted:
    """The process lacks the privilege."""
    return NftNotPermitted(
        "this process may not read or change nftables; run it as root with the capability CAP_NET_ADMIN", nft=words
    )


def timed_out(what: str, seconds: float) -> NftTimeout:
    """No answer came in time."""
    return NftTimeout(f"nft did not {what} within {seconds:g} s; check that `nft list tables` answers, then try again")


def owned(name: str, owner: str = "") -> TableOwned:
    """Another process owns the table; `owner` is the name of the program, if nft prints it."""
    whose = f"another process ({owner})" if owner else "another process"
    return TableOwned(
        f"the table ip6 {name} is owned by {whose}, and only its owner may change it; "
        "stop that process (the kernel then deletes the table), or choose another name for the table"
    )


def refused(what: str, words: str) -> NftablesError:
    """The error for a failed nft command, by its text; TableOwned cannot be recognised from it."""
    if any(it in words for it in _NO_JSON):
        return too_old(words)
    if is_about_permission(words):
        return not_permitted(words)
    return NftRefused(f"nft could not {what}", nft=words or "nft printed no message")


def is_about_permission(words: str) -> bool:
    """Whether something was not permitted: to this process, or because another process owns the table."""
    return _DENIED in words


def is_absent(words: str) -> bool:
    """Whether the requested object does not exist."""
    return _ABSENT in words


def tidied(lines: Iterable[str]) -> str:
    """Return nft's text as one line, without the location in its input and the markers under it."""
    told = (line.strip().removeprefix("internal:0:0-0: ") for line in lines)
    return " | ".join(dict.fromkeys(line for line in told if line.strip("^~ ")))
