"""From a trained model to images; independent of training."""
