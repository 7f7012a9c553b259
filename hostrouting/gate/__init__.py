"""The gate of a host as systemd, and whoever looks at the host, see it: which units it holds back,
and what is wrong with it. Nothing is changed here.
"""
