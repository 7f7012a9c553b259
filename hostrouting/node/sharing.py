"""A pass is shared by the starts that were waiting for one: fifty units that start together make
five or six passes.

A start may use the result of a pass that began after the start did, was made by the same program,
and read the same configuration. The result is a file of root's in /run: a line for each fact, the
lines for the journal, and behind an empty line what the pass was made with. It is not JSON, because
every start would wait for what reads that.
"""

from __future__ import annotations

from hostrouting.host.layout import HostLayout
from hostrouting.node.running import running_program
from hostrouting.text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostrouting.host.base import Files
    from hostrouting.node.journal import Line


class PassResult:
    """What a start has to know of a pass."""

    def __init__(
        self, units: Sequence[str], *, lines: Sequence[Line], refuses: bool, waits: str
    ) -> None:
        self.units = units
        """The units that the configuration gates."""
        self.lines = lines
        """What has to be logged."""
        self.refuses = refuses
        """Whether a gated unit must not start."""
        self.waits = waits
        """What may still come, in words; empty if nothing."""


def read_shared(files: Files, config: str, *, since: float, now: float) -> PassResult | None:
    """The result of a pass of this program that read this configuration and began in this time;
    None if there is none.
    """
    path = HostLayout.result_path
    try:
        entry = files.look(path)
        if entry is None or entry.kind != "file" or entry.is_open_to_others:
            return None
        facts, _, made_with = (files.read(path) or "").partition("\n\n")
        if made_with != _made_with(config):
            return None
        began, refuses, units, waits, *lines = facts.split("\n")
        if not since <= float(began) <= now:  # also of another boot
            return None
        return PassResult(
            units.split()[1:],
            lines=[(int(line[0]), line[2:]) for line in lines],
            refuses=refuses == "refuses",
            waits=waits.removeprefix("waits: "),
        )
    except Exception:  # noqa: BLE001  whatever is wrong with the file, this start makes a pass
        return None


def share(files: Files, config: str, result: PassResult, *, began: float) -> None:
    """Leave the result for those who wait; a failure costs them a pass each."""
    facts = [
        str(began),
        "refuses" if result.refuses else "passes",
        f"units: {' '.join(result.units)}",
        f"waits: {result.waits}",
    ]
    facts += [f"{level} {words}" for level, words in result.lines]
    text = "\n".join([*map(printable, facts), "", _made_with(config)])
    try:
        files.write(HostLayout.result_path, text)
    except Exception:  # noqa: BLE001  see above
        return


def _made_with(config: str) -> str:
    """What a pass is made with: the program, and the text of the configuration."""
    return f"{running_program()}\n{config}"
