"""`StickyAssignor` and `CooperativeStickyAssignor` of many groups at once; `batch` is the way in."""
