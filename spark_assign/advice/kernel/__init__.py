"""All advice for a fleet, none contradicting another."""
