"""The guard keeps a host's routing right: it looks, repairs, and looks again after each change.

pace      when the next look is due, and what may be repaired
state     what the guard knows, as JSON and for a Prometheus collector
loop      Guard, the task that waits, looks and repairs
service   InstallGuard, the task that installs the service that runs Guard
"""
