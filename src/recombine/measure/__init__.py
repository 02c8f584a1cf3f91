"""What is measured of trained models: numbers, and the measurements by name."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from recombine.called import also_a_function

if TYPE_CHECKING:
    from recombine.measure.subject import Measure

_FILES = {
    "length": "requests.Length",
    "locality": "ablation.Locality",
    "composition": "composition.Composition",
    "circuits": "masked.Circuits",
    "token_locality": "token_locality.TokenLocality",
    "tokenizing": "tokenizing.Tokenizing",
    "reader_error": "reader_error.ReaderError",
    "held_out_error": "held_out_error.HeldOutError",
    "detector_error": "detection.DetectorError",
    "circle_error": "circles.CircleError",
    "exact_error": "exact.ExactError",
}


class Measures(Mapping[str, "Measure"]):
    """Measurements with their usual settings; a file is imported when its measurement is used."""

    def __getitem__(self, name: str) -> "Measure":
        file, kind = _FILES[name].split(".")
        return getattr(import_module(f"recombine.measure.{file}"), kind)()

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES)

    def __len__(self) -> int:
        return len(_FILES)


MEASURES = Measures()
also_a_function(__name__)
