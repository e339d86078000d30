"""`StickyAssignor` and `CooperativeStickyAssignor` of many groups at once; `plan_batch` is the way in."""
