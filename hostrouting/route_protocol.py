"""The route protocol number that marks a route as ours.

Here: only the number, without imports, so that the help of the command line and the configuration can show it at no
cost. Not here: the names of such numbers (`model`), and the numbers that other programs use (`config`).
"""

__all__ = ["OURS"]

# The default; the configuration can set another number. No other program is known to use it.
OURS = 213
