"""The edge to the rules for Ethernet frames: the contract, the programs of ebtables, and the fake one.

base      the contract: read the rules, delete and add rules of table nat
saved     the text of ebtables-save, as far as an edge has to understand it
refusal   error messages
program   ebtables-save and ebtables-restore
memory    rules in a list
"""

from hostrouting.kernel.ebtables.program import BACKENDS, PROGRAMS, Backend, Ebtables, EbtablesProgram

__all__ = ["BACKENDS", "PROGRAMS", "Backend", "Ebtables", "EbtablesProgram"]
