"""An error inside the fake kernel: the number and the words that Linux would answer with, and nothing else.

It never leaves the package: a change turns it into an Outcome, every other verb into a BackendError.
"""

__all__ = ["KernelError"]


class KernelError(Exception):
    """The kernel says no."""

    def __init__(self, number: int, words: str = "", *, problem: str = "") -> None:
        """Keep the errno, and the kernel's own words where it has some; a `problem` is found before it is asked."""
        self.number = number
        self.words = words
        self.problem = problem
        super().__init__(number, words)
