"""Pure kernels of migrations and upgrades: simulated restarts, metrics, and verdicts."""
