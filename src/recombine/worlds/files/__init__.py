"""Real data from disk, in the formats they are published in: CLEVR_v1.0, 3dshapes.h5, CelebA."""
