"""Our routes: their device and gateway, the changes that they need, and carrying these out.

Here: routes in the kernel's tables. Not here: which routes are needed (`config`, `check`), when they are installed
(`tasks`), and how they are installed again at a boot (`boot`).

uplink   the default route, and what static routes take from it
plan     the steps from the present routes to the wanted ones
apply    the steps, carried out as one transaction
"""
