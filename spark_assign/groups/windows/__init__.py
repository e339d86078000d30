"""Range and round robin as Spark window functions."""
