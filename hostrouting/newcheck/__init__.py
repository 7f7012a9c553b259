"""The check as it will be, beside the present one: an engine of one pass, and a judge of kinds, tunnels and networks.

It is right on every node of tests/hosts, and keeps the laws of tests/hostrouting/newcheck on random nodes. Nothing uses
it yet: `check`, the tasks and the script at boot change together.

engine, not_judged    become `hostrouting.fib`
cni                   becomes `hostrouting.config.cni`
the others            become `hostrouting.check`
"""
