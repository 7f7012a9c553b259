"""The state of the gate on a host: which units it holds back, and what is wrong with it. The gate
is the command in our drop-ins that systemd runs before it starts a unit. Nothing is changed here.
"""
