"""Results as text for the terminal."""
