"""Consumer groups: what each assignor would assign, what moves and why, and in which rounds."""
