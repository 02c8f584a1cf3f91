"""What `recombine new` writes: files that run, in which every `skeleton` becomes the new name."""
