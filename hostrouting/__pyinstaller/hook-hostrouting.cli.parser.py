"""A frozen program with the command line needs the commands, which `hostrouting.cli.parser` loads
by their names.
"""

from hostrouting.cli.parser import COMMANDS

hiddenimports = [f"hostrouting.cli.commands.{name}" for name in COMMANDS]
