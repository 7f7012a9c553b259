"""The edge to the rules for Ethernet frames: what it promises, the programs of ebtables, and the fake one.

base      the promises: read the rules, delete some of the table nat, add some
saved     the text of ebtables-save, as far as an edge has to understand it
refusal   the errors of ebtables, in words
program   ebtables-save and ebtables-restore
memory    rules in a list
"""

from hostrouting.ebtables.base import BACKENDS, PROGRAMS, Backend, Ebtables
from hostrouting.ebtables.memory import MemoryEbtables
from hostrouting.ebtables.program import EbtablesProgram

__all__ = ["BACKENDS", "PROGRAMS", "Backend", "Ebtables", "EbtablesProgram", "MemoryEbtables"]
