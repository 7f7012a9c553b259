"""The edge to the rules for Ethernet frames: `program` has the contract, and the programs of ebtables.

The fake one is `hostrouting.testing.MemoryEbtables`.
"""

from hostrouting.kernel.ebtables.program import BACKENDS, PROGRAMS, Backend, Ebtables, EbtablesProgram

__all__ = ["BACKENDS", "PROGRAMS", "Backend", "Ebtables", "EbtablesProgram"]
