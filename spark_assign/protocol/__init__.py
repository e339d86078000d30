"""The group protocol in time."""
