"""The shells that a POSIX script has to run in: those that are installed here."""

import shutil

import pytest

_KNOWN = (["dash"], ["bash", "--posix"], ["busybox", "sh"])

SHELLS = [words for words in _KNOWN if shutil.which(words[0])]
"""Those that are installed here, each as the words that start it."""

each_shell = pytest.mark.parametrize(
    "shell", [pytest.param(words, marks=pytest.mark.needs(words[0])) for words in _KNOWN], ids=lambda words: words[0]
)
"""Runs a test in each shell."""
