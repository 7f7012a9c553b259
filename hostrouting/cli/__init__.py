"""The operator's command line: `hostrouting`, or `python -m hostrouting`. A thin shell over the same functions.

parser       what may be typed; all that is loaded for --help and for bad usage
program      from arguments to an exit code: the one place that catches, prints and exits
reply        what a command answers: an exit code, a document, and the same in lines
page         lines, tables and colours, as values; `terminal` writes them as far as the terminal can show them
source       the kernel or the saved snapshot that is looked at, and the configuration
failure      what an error means to an operator and to a program
picture      a CIDR as a map
schemas      every key of the JSON documents, with what it means
examined     a check, with the host that it was made on; `remedy` has the words for its repair
standing     what of ours is on a host; `verdicts` judges it as it is now, and reads what the last check left
explanation  what there is to know about one packet's way; `explain_document` is its JSON
witness      wrappers that remember what a command saw and did; `changes` has the words for it
running      a task run from the command line: progress, signals, failures
check, explain, repair, plan, apply, remove, status, snapshot, render
             one module a command, loaded when it is typed
"""

from hostrouting.cli.program import main

__all__ = ["main"]
