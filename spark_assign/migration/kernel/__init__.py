"""Classic groups on their way to the broker's protocol (KIP-848): what each restart does, and whether to go at all."""
