"""The commands, a module for each: its arguments, what it does, and what it prints.
`parser.COMMANDS` lists them.
"""
