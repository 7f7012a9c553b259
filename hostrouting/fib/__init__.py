"""What Linux does with a packet, computed from the rules and routes of a snapshot."""

from hostrouting.fib.engine import Decision, Fib, OtherEnd

__all__ = ["Fib", "Decision", "OtherEnd"]
