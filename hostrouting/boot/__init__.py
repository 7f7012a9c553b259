"""The files that a configuration puts on a host: the program, our units, and the drop-ins by which
other units are gated.
"""
