"""Results as pages for a browser: one HTML file each, with nothing to load and nothing that data could run."""
