"""What every boot needs: the scripts and units that set up the routing again, and the gate that holds gated units back.

Here: the text of every file for the boot, as functions of a configuration and a layout; and the gate on a host. Not
here: which files a host needs (`tasks`), and writing a set of files (`host`).

scripts     the boot scripts of the IPv4 tasks: a static body, and the settings as data in one block
units       the units that run one script each, and that of the guard
probe       the table that rewrites the source of probes, and the script and unit that load it at boot
gate_files  the drop-in, unit, script and list of steps that keep gated units from starting too early
gate        how these are installed, changed and removed
installed   the configuration that is installed on a host, read from all of these
gate_state  what lets gated units start unchecked although they are there, and until when an administrator allows it
assets/     the bodies of the scripts: plain shell and awk, without placeholders
"""
