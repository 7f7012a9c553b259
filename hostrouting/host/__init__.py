"""The rest of a host: files, systemd, paths and other sources of facts. Tasks decide what is done with it.

host       everything of a host in one value
files      files, written whole or not at all, and locks; only this knows the root folder
fileset    files that are installed and removed together
layout     every path and every name
systemd    the service manager: units, and what a service tells it
effects    what a task has changed
"""
