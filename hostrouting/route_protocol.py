"""The route protocol number that marks a route as ours.

Here: the number, and nothing to load, so that the command line's help and the configuration can say it at no cost. Not
here: the names of such numbers (`model`), and which of them others use (`config`).
"""

__all__ = ["OURS"]

# Unless the configuration says another. Nobody else is known to use it.
OURS = 213
