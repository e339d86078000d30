"""Reports for people: text, charts, HTML pages, and metrics."""
