"""Results as text, tables and files: layout, escaping, colours, progress."""
