"""CleanStaleAzureVnet (`task`): deletes what azure-vnet left behind for pods that another CNI manages now."""
