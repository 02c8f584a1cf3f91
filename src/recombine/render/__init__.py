"""From scenes to images, batched, on any device: `raycast` for solids, `raster` for flat shapes."""
