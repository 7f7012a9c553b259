"""From the text of ebtables to the error that an operator reads: its class, and the remedy.

Here: one sentence for each kind of error, the same for ebtables and for the fake one. Not here: when it refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.errors import (
    EbtablesError,
    EbtablesMissing,
    EbtablesNotLoaded,
    EbtablesNotPermitted,
    EbtablesRefused,
    EbtablesTimeout,
    EbtablesTooOld,
    EbtablesWrongBackend,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "both_backends",
    "knows_batches",
    "missing",
    "no_nf_tables",
    "not_loaded",
    "not_permitted",
    "refused",
    "tidied",
    "timed_out",
    "too_old",
    "wrong_backend",
]

_DENIED = ("Operation not permitted", "Permission denied", "must be root")
_NOT_LOADED = "The kernel doesn't support the ebtables"
_NO_NF_TABLES = "Failed to initialize nft"
_BATCH, _USAGE = "--noflush", "Usage: "
_NOISE = ("Try `", "Perhaps ")


def missing(program: str = "ebtables") -> EbtablesMissing:
    """The program is not installed."""
    return EbtablesMissing(f"the program {program} is not in PATH; install the package iptables or ebtables")


def not_permitted(words: str = "") -> EbtablesNotPermitted:
    """The process lacks the privilege."""
    return EbtablesNotPermitted(
        "this process may not read or change the rules of ebtables; run it as root with the capability CAP_NET_ADMIN",
        ebtables=words,
    )


def not_loaded(words: str = "") -> EbtablesNotLoaded:
    """The kernel has no table nat for legacy ebtables."""
    return EbtablesNotLoaded(
        "the kernel module ebtable_nat is not loaded, so legacy ebtables cannot list its rules; "
        "load it (modprobe ebtable_nat), or set azureVnetCleanup.ebtables to nft if the rules are in nf_tables",
        ebtables=words,
    )


def no_nf_tables(words: str = "") -> EbtablesNotLoaded:
    """The kernel has no nf_tables for the backend nft."""
    return EbtablesNotLoaded(
        "this kernel has no nf_tables, where the nft backend of ebtables keeps its rules; "
        "set azureVnetCleanup.ebtables to legacy if the rules are there",
        ebtables=words,
    )


def too_old(program: str, words: str) -> EbtablesTooOld:
    """The program does not know the option by which other rules stay."""
    return EbtablesTooOld(
        f"{program} does not know --noflush, so rules can neither be deleted nor added in one batch, and nothing was "
        "changed; install ebtables 2.0.11 or iptables 1.8.2, or anything newer",
        ebtables=words,
    )


def knows_batches(words: str) -> bool:
    """Whether these are not the words of a program that does not know the option; its usage names it either way.

    The restore of ebtables 2.0.10 is a script that takes the option for the name of a file, and ends well without it.
    """
    return not any(_BATCH in line for line in words.splitlines() if not line.startswith(_USAGE))


def wrong_backend(asked: str, other: str, count: int) -> EbtablesWrongBackend:
    """The requested backend has no rules, but the other one has."""
    return EbtablesWrongBackend(
        f"the {asked} backend of ebtables has no rules in table nat, but {other} has {count}; "
        f"set azureVnetCleanup.ebtables to {other} or auto"
    )


def both_backends(counts: Iterable[tuple[str, int]]) -> EbtablesWrongBackend:
    """Both backends have rules, and the configuration does not say which to use."""
    found = " and ".join(f"{count} in {backend}" for backend, count in counts)
    return EbtablesWrongBackend(
        f"both backends of ebtables have rules in table nat ({found}); "
        "set azureVnetCleanup.ebtables to nft or legacy, and clean one after the other"
    )


def timed_out(what: str, seconds: float) -> EbtablesTimeout:
    """No answer came in time."""
    return EbtablesTimeout(
        f"ebtables did not {what} within {seconds:g} s; check that `ebtables-save` answers, then try again"
    )


def refused(what: str, words: str) -> EbtablesError:
    """The error for a failed ebtables command, by its text."""
    if any(it in words for it in _DENIED):
        return not_permitted(words)
    if _NOT_LOADED in words:
        return not_loaded(words)
    if _NO_NF_TABLES in words:
        return no_nf_tables(words)
    return EbtablesRefused(f"ebtables could not {what}", ebtables=words or "ebtables printed no message")


def tidied(lines: Iterable[str]) -> str:
    """The text of ebtables as one line, without its advice."""
    told = (line.strip() for line in lines)
    return " | ".join(dict.fromkeys(line for line in told if line and not line.startswith(_NOISE)))
