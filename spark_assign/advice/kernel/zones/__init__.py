"""What crosses a zone: who reads which partitions from which rack, and what else there could be."""
