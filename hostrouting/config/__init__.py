"""The operator's configuration, fully checked.

settings         every setting, as frozen classes; reading and writing them: JSON, mapping, file
values           the rule for each single value
cni              the devices and the refusing routes of known CNIs, as tables
"""
