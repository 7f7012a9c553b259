"""The defaults of a route that is added: its protocol number, which marks it as ours, and its metric.

Here: only numbers, without imports, so that the help of the command line and the configuration can use them at no
cost. Not here: the names of protocol numbers (`model`), and the numbers that other programs use (`config`).
"""

__all__ = ["DEFAULT_METRIC", "OURS"]

# The default; the configuration can set another number. No other program is known to use it.
OURS = 213

# By family: the metric that Linux gives to a route that was added without one.
DEFAULT_METRIC = {4: 0, 6: 1024}
