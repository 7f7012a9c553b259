"""The operator's configuration, fully checked.

settings         the whole of it: the frozen classes, and reading and writing them: JSON, mapping, file
probe_rewrite    the section probeRewrite: classes and rules
azure_vnet       the section azureVnetCleanup: classes and rules
cni              the devices and the refusing routes of known CNIs, as tables
values           the rule for each single value
json             files, JSON objects and lists in general: paths, keys, faults; nothing about routing
"""
