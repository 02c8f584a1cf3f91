"""The condition of a model for what a user wants: objects at places, or concepts by factor."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from recombine.condition import EncodesPlaces, FactorDropout, Labels
from recombine.measure.renders import means, single_object_world
from recombine.report.words import nearest
from recombine.split import Split
from recombine.training import Training


def at_places(training: Training, at: Sequence[tuple[float, float]]) -> Tensor:
    """Return the condition that requests an object at each of these places."""
    encode = training.conditioner.encode
    if not isinstance(encode, EncodesPlaces):
        raise ValueError("this model is not conditioned on places; there is no `at` for it")
    place = torch.tensor([*at], dtype=torch.float32).reshape(1, -1, 2)
    if not ((place >= 0) & (place <= 1)).all():
        raise ValueError(f"x and y of a place are from 0 to 1; got {list(at)}")
    # The far border still belongs to the image.
    place = place.clamp(max=1 - 2**-24)
    return encode.at(place, torch.ones(1, place.shape[1], dtype=torch.bool))


def of_factors(training: Training, wanted: Mapping[str, str]) -> Tensor:
    """Return the condition that requests these concepts.

    Factors that are not named are null where the model has learned null rows; otherwise all are
    needed.
    """
    conditioner, factors = training.conditioner, training.world.factors
    if isinstance(conditioner.encode, EncodesPlaces):
        raise ValueError("this model is conditioned on places, not on factors; use `at`")
    names = [factor.name for factor in factors]
    for name in wanted:
        if name not in names:
            raise ValueError(f"{name!r} is not one of {', '.join(names)}{nearest(name, names)}")
    missing = [name for name in names if name not in wanted]
    nulls = isinstance(conditioner, FactorDropout) and conditioner.share and not conditioner.as_zero
    if missing and not (nulls and isinstance(conditioner.encode, Labels)):
        raise ValueError(
            f"this model has not learned to leave factors open; missing: {', '.join(missing)}"
        )
    which = tuple(
        each.concepts[each.index(wanted.get(each.name, each.concepts[0]))] for each in factors
    )
    world = single_object_world("sampling by factors", training, Split("wanted", factors, (which,)))
    condition = conditioner.encode(means(world, which, 1, torch.device("cpu")))
    if missing:
        condition[:, [names.index(name) for name in missing]] = 0
    return condition
