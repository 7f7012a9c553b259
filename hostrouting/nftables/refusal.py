"""From nft's words to the error that an operator reads: which kind, and what to do about it.

Here: one sentence for each kind, the same for the real nft and for the fake one. Not here: when nft refuses.
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
    """There is no program nft."""
    return NftMissing("there is no program nft in PATH; it is in the package nftables")


def too_old(words: str = "") -> NftTooOld:
    """The program nft does not speak JSON."""
    return NftTooOld("this nft does not speak JSON, as it does since 0.9.0; take a newer package nftables", nft=words)


def not_permitted(words: str = "") -> NftNotPermitted:
    """The process lacks the privilege."""
    return NftNotPermitted("this process may neither read nftables nor change it; run it as root", nft=words)


def timed_out(what: str, seconds: float) -> NftTimeout:
    """No answer came in time."""
    return NftTimeout(f"nft did not {what} within {seconds:g} s; see whether `nft list tables` answers, then try again")


def owned(name: str, owner: str = "") -> TableOwned:
    """Another process owns the table; `owner` is the name of the program, where nft tells it."""
    whose = f"another process ({owner})" if owner else "another process"
    return TableOwned(
        f"the table ip6 {name} is owned by {whose}, and the kernel lets nobody else change it; "
        "it is gone when that process ends, or choose another name for the table"
    )


def refused(what: str, words: str) -> NftablesError:
    """The error for what nft could not do, by its words; ownership is not seen in them."""
    if any(it in words for it in _NO_JSON):
        return too_old(words)
    if is_about_permission(words):
        return not_permitted(words)
    return NftRefused(f"nft could not {what}", nft=words or "it said nothing")


def is_about_permission(words: str) -> bool:
    """Whether something was not permitted: to this process, or of a table that another process owns."""
    return _DENIED in words


def is_absent(words: str) -> bool:
    """Whether what was asked for is not there."""
    return _ABSENT in words


def tidied(lines: Iterable[str]) -> str:
    """What nft has said, as one line: without the place in what was told to it, and without what points there."""
    told = (line.strip().removeprefix("internal:0:0-0: ") for line in lines)
    return " | ".join(dict.fromkeys(line for line in told if line.strip("^~ ")))
