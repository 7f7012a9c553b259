"""Finds what another CNI left behind for pods that a new CNI manages now, and deletes it.

plan         what is stale, what is kept, each with its reason; and what was deleted, as commands that restore it
saved_rules  parses the output of ebtables-save
task         the base class of a clean-up, which reads the host, records and deletes
azure_vnet   CleanStaleAzureVnet: what of azure-vnet is stale
"""
