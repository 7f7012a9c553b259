"""Our routes: their device and gateway, the changes that they need, and carrying these out."""
