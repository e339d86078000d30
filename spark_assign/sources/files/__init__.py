"""Reads fleets and snapshots from files and catalogs."""
