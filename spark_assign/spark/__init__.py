"""Tools for Spark: adapters to Arrow, caching, slices as DataFrames, and checks of tables."""
