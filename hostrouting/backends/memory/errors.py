"""An error inside the fake kernel: the errno and the text that Linux would answer with.

It never leaves the package: a change turns it into an Outcome, every other method into a BackendError.
"""

__all__ = ["KernelError"]


class KernelError(Exception):
    """The kernel refused."""

    def __init__(self, number: int, words: str = "", *, problem: str = "") -> None:
        """Store the errno, and the kernel's text if it has one; `problem` is a fault found without the kernel."""
        self.number = number
        self.words = words
        self.problem = problem
        super().__init__(number, words)
