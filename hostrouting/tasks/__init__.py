"""The tasks that an agent puts into its pipeline: what is done, in order. Other packages do the work.

All of them are idempotent, can be cancelled at any moment, and are serialised by a lock on the host.

configure       Configure (runs all tasks that are configured, in order) and Remove
static_routes   ConfigureStaticRoutes
overlap_check   CheckRouteOverlap
probe_rewrite   RewriteProbeSource
guard           Guard, which keeps right what the others have installed, and InstallGuard, which installs its service
cleanup         CleanStaleAzureVnet, for a caller
keeping         KeepForeign, which tells systemd-networkd to keep foreign routes and rules
results         what the tasks and their plans return
base            their base class: the lock, the gate, and the run of the units
"""
