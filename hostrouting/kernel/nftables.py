"""nftables: the contract of an edge that loads and lists a table, and the edge that runs nft.

The text of a table, in nft's language, is loaded unchanged. A listing is not that text: nft prints
the table in words of its own, which depend on its version.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Protocol

from hostrouting.errors import HostError
from hostrouting.kernel.programs import RunProgram, run_program, run_tool


class Nftables(Protocol):
    """Loads and lists tables of nftables; only those of the family ip6 are listed.

    Each verb raises the HostError of `run_tool` if nft cannot be used or refuses; no verb retries.
    """

    def load(self, text: str) -> None:
        """Carry out the text, which is in nft's language, in one transaction: readers and packets
        see all of it or nothing.

        An error of the kind `refused` or `not-permitted` means that nothing was changed. It is
        `not-permitted` also if another process owns a table in the text.
        """

    def listing(self, name: str) -> str | None:
        """The text of the table with this name, as nft prints it without counters; None if there is
        no such table. Other tables are not read.
        """


class NftProgram:
    """The nftables of the network namespace of the calling thread.

    Nothing is kept between two calls.
    """

    def __init__(self, *, run: RunProgram = run_program) -> None:
        self._nft = partial(run_tool, "nft", what="nft", package="nftables", run=run)

    def load(self, text: str) -> None:
        self._nft("-f", "-", purpose="load a table", text=text)

    def listing(self, name: str) -> str | None:
        # --stateless leaves out counters.
        arguments = ("--numeric", "--stateless", "list", "table", "ip6", name)
        try:
            return self._nft(*arguments, purpose=f"list the table ip6 {name}").out
        except HostError as error:
            # nft prints this if there is no such table. Without "Error:", the words are those of
            # the dynamic loader, which did not find a library of nft.
            if re.search("Error: .*No such file or directory", error.output):
                return None
            raise
