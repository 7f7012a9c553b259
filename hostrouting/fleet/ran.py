"""What a program printed on a node, and its last words in a message. Not here: the meaning of what it printed."""

from __future__ import annotations

import attrs

__all__ = ["Ran"]

_LINES = 20  # at the end of standard error: a traceback ends with the error


@attrs.frozen
class Ran:
    """A program that has ended on a node: its exit code (or minus the signal), and the text of both outputs."""

    code: int
    output: str = ""
    errors: str = ""

    @property
    def ending(self) -> str:
        """How it ended, and the last lines of its standard error."""
        how = f"was ended by signal {-self.code}" if self.code < 0 else f"ended with exit code {self.code}"
        lines = self.errors.strip().splitlines()[-_LINES:]
        return f"{how}; its message: {chr(10).join(lines)}" if lines else f"{how}, without a message"
