"""A whole cluster as its disks know it: which copy of a log is the right one, the metadata replayed, groups with their lag."""
