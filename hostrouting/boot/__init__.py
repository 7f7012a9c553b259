"""The files that a configuration puts on a host: the program, the units, and the drop-ins by which
units are held back.
"""
