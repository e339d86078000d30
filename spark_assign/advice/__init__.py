"""What the owners of groups should do: how many consumers, balanced by what, in which zone, static or not."""
