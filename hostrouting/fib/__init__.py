"""What Linux does with a packet, computed from the rules and routes of a snapshot."""

from hostrouting.fib.engine import PLAIN, Cell, Decision, Fib, Outcome, Packet
from hostrouting.fib.trace import Tried, trace_rules

__all__ = ["Fib", "Packet", "PLAIN", "Decision", "Cell", "Outcome", "trace_rules", "Tried"]
