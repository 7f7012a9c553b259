"""The files that go below /usr/share, or that of a user or an environment: completion scripts and the manual page.

Here: reading them. They are in the folder `share`, each where it belongs below /usr/share, and `make messages` writes
them from the records of the commands.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from typing import Any

__all__ = ["COMPLETIONS", "MANUAL", "shared_text"]

COMPLETIONS = {
    "bash": "bash-completion/completions/hostrouting",
    "zsh": "zsh/site-functions/_hostrouting",
    "fish": "fish/vendor_completions.d/hostrouting.fish",
}
MANUAL = "man/man1/hostrouting.1"


def shared_text(name: str) -> str:
    """The text of one of these files."""
    loader: Any = __spec__.loader  # which reads from a folder or, for hostrouting.pyz, from an archive
    text: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), "share", name))
    return text.decode()
