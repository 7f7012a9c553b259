"""What every boot needs: the scripts and units that set up the routing again, and the gate that holds gated units back.

Here: the text of every file, as functions of a configuration; and whether the gate is in force on a host.
Not here: writing the files (`tasks.install`).

files        every file of a configuration, and what of ours a host has
scripts      the steps of the gate: a static body, and the settings as data in one block
units        the units that run the steps at boot, that of the guard, and the drop-in of each gated unit
probe_table  the nftables table that rewrites the source of probes
health       what lets gated units start unchecked although they are gated, or keeps them from starting
assets/      the bodies of the scripts: plain shell and awk, without placeholders
"""
