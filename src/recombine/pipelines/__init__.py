"""Networks that others have trained, as the denoisers that everything here is measured on."""

from recombine.pipelines.wrap import Wrapped, wrap

__all__ = ["Wrapped", "wrap"]
