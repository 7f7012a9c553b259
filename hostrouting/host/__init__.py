"""A host without its kernel: files, systemd, paths and what a task has changed. Tasks decide what is done with them."""
