"""What a user does to log directories. Each task returns a typed result; none prints."""
