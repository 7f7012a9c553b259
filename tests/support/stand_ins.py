"""A stand-in for the programs of a host, for what runs them through `RunProgram`."""

from collections.abc import Mapping
from typing import TypeAlias

from hostrouting.kernel.programs import Ended

Answer: TypeAlias = "Ended | str | BaseException | list[Ended]"


class Programs:
    """Prepared answers, a list in its order; other programs are not installed."""

    def __init__(self, **answers: Answer) -> None:
        """Answers by `key`; a string is the output of a program that ends well."""
        self.answers = answers
        self.asked: list[tuple[tuple[str, ...], str]] = []
        self.environment: Mapping[str, str] = {}

    def key(self, *words: str) -> str:
        """The name of the answer to this command: its program, with underscores."""
        return words[0].replace("-", "_")

    def __call__(
        self,
        *words: str,
        timeout: float,
        text: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Ended:
        assert 0 < timeout <= 30
        self.asked.append((words, text))
        self.environment = environment or {}
        answer = self.answers.get(
            self.key(*words), FileNotFoundError(2, "No such file or directory")
        )
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, BaseException):
            raise answer
        return Ended(0, answer) if isinstance(answer, str) else answer
