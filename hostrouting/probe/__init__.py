"""The rewrite of the load balancer's probes over IPv6: its table, and how that comes into force."""
