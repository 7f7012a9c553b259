"""JSON read into values of a class, for configurations, snapshots, and an agent's own settings;
every fault is reported at once.

- `documents` reads the text of a file, and JSON in a text.
- `types` has the way from a type to the function that reads its values, and the faults of these
  values.
- `sections` reads and writes whole objects, and makes a class a section of a configuration.
"""

from hostrouting.reading.documents import load, parse
from hostrouting.reading.sections import json_value, read, read_file, section
from hostrouting.reading.types import matches, must, register, text_as

__all__ = ["load", "parse"]  # documents
__all__ += ["read", "read_file", "json_value", "section"]  # objects
__all__ += ["must", "matches", "text_as", "register"]  # the rules of types
