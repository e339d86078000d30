"""What the jobs share: how they are called and end, their options and their settings."""
