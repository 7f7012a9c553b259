"""The rest of a host: files, systemd, paths and what a task has changed. Tasks decide what is done with it."""
