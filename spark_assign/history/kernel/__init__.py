"""Builds the past of groups from their coordinator's records: generations, ownership, commits, pauses, deploys."""
