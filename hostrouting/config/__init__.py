"""The operator's configuration (`settings`), and what is known about CNIs (`cni`)."""
