"""The operator's command line: `hostrouting`, or `python -m hostrouting`. A thin shell over the same functions.

command      a command as one record: name, help, options, what it answers; and what that is: an exit code, a document,
             and the same in lines
commands     the commands, a module each; all that is loaded for --help and for bad usage are their records
parser       the command line and its help, made of these records
entry_point  from arguments to an exit code: the one place that catches, prints and exits
page         lines, tables and colours, as values; `terminal` writes them as far as the terminal can show them
source       the kernel or the saved snapshot that is looked at, and the configuration
failure      the exit code of an error, and its document
schemas      the keys that several JSON documents have in common, with what they mean
check        a check that was made, and its words; `remedy` has those for its repair, `cidr_map` draws a CIDR
explanation  what there is to know about one packet's way
host_status  what of ours is on a host, and the verdict on it, now and the last one
run          a run of our tasks, as it would be and as it was
gates        what is said of the gate
"""

from hostrouting.cli.entry_point import main

__all__ = ["main"]
