"""The tasks that an agent puts into its pipeline: what is done, in order. Other packages do the work.

All of them are idempotent, can be cancelled at any moment, and are serialised by a lock on the host.

install         the one road on which a configuration comes onto a host, and the base class of the three tasks below
requirements    what a host lacks for a configuration, and what a configuration would take away
configure       Configure (all three, in order) and Remove
static_routes   ConfigureStaticRoutes
overlap_check   CheckRouteOverlap
probe_rewrite   RewriteProbeSource
cleanup         CleanStaleAzureVnet, for a caller
results         what the tasks and their plans return
"""
