"""What Linux does with a packet, computed from the rules and routes of a snapshot."""

from hostrouting.fib.engine import FROM_HOST, Cell, Decision, Fib, Outcome, PacketKind
from hostrouting.fib.trace import Tried, trace_rules

__all__ = ["Fib", "PacketKind", "FROM_HOST", "Decision", "Cell", "Outcome", "trace_rules", "Tried"]
