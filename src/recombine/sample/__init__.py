"""From a trained model to images; knows nothing of training."""
