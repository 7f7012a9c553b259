"""The rest of a host: files, systemd, paths and other sources of facts. Tasks decide what is done with it.

host       everything of a host in one value
sandbox    a host that is separate from this machine
files      files, written atomically and only if they differ, and the lock
image      the same below a root directory
fileset    files that are installed and removed together
layout     every path and every name
systemd    the service manager: units, and what a service tells it
saved      a snapshot in a file
effects    what a task has changed
"""
