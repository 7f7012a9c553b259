"""A kernel in a dictionary: Linux's routing, without Linux."""

from hostrouting.backends.memory.backend import MemoryBackend
from hostrouting.backends.memory.faults import Faults, Moment
from hostrouting.backends.memory.watch import MemoryWatch

__all__ = ["Faults", "MemoryBackend", "MemoryWatch", "Moment"]
