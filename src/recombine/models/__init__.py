"""Models, one per file: exact laws, networks, and readers of images."""
