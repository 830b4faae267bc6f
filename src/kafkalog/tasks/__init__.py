"""Tasks on log directories, one for each command. Each returns a typed result; none prints."""
