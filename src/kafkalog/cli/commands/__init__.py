"""The arguments and help of each command, one module per command; what several share is in `shared_options`."""
