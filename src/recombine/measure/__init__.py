"""Measurements: what is true of images, of a denoiser or of its samples."""
