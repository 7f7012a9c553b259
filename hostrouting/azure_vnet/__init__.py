"""The clean-up after azure-vnet: what it left behind for pods whose addresses another CNI manages
now.

- `rules` recognises the rules that azure-vnet adds for a pod, `state` reads the file in which it
  lists pods, and `conflists` says whether it is active.
- `judge` decides what is stale: functions from facts to entries, each with its fate and the reason.
- `ebtables` and `neighbours` read and change the host: the rules for Ethernet frames, and who has
  which MAC address.
- `undo` writes the shell script that restores what is deleted, and `task` reads a host and deletes
  what is stale.
"""
