"""Composition of a trained model: what is sampled, who reads it, and what stands beside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from recombine.condition import Conditioner, FactorDropout, Labels, all_objects
from recombine.measure.composition import Composition, read_again
from recombine.measure.fit import Fit
from recombine.measure.renders import fresh
from recombine.measure.subject import Findings, SumsUp
from recombine.measurement import Measurement
from recombine.scene import concept_rows
from recombine.split import Coverage, Split
from recombine.views import Unchanged
from recombine.worlds.circles import Circles
from recombine.worlds.shapes2d import BINARY, PAPER, Shapes2D
from subjects import CPU, Model, training

LABELS = Conditioner(all_objects, Labels((2, 2, 2)))
EVERY = BINARY.compositions
ROWS = dict(zip(EVERY, concept_rows(BINARY.factors, EVERY), strict=True))
DEV = replace(BINARY, dev=BINARY.at(1)[:1])


@dataclass(frozen=True)
class Said:
    """What a scripted reader says, each image at a distance from the limit 1."""

    concepts: Tensor
    away: Tensor

    @property
    def valid(self) -> Tensor:
        return self.within(1.0)

    @property
    def rows(self) -> Tensor:
        return torch.where(self.valid[:, None], self.concepts, -1)

    def within(self, factor: float) -> Tensor:
        return self.away <= factor


class Script:
    """Reads from the first pixels what a scripted model wrote there."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def __call__(self, images: Tensor) -> Said:
        self.seen.append(images)
        return Said((images[:, :, 0, 0] * 4).round().long(), images[:, 0, 0, 1] * 4)


def written(rows: Tensor, away: Tensor | float = 0.0) -> Tensor:
    """Draw images that the script reads as these concepts, at this distance."""
    images = torch.zeros(len(rows), 3, 4, 4)
    images[:, :, 0, 0] = rows / 4
    images[:, 0, 0, 1] = torch.as_tensor(away).expand(len(rows)) / 4
    return images


def parts(**others: Any) -> SimpleNamespace:
    usual = {"world": replace(PAPER, among=BINARY.seen, size=4), "conditioner": LABELS}
    return training(**{**usual, **others})


def measured(draw: Callable, measure: Composition, of: Any = None, reader: Any = None) -> Findings:
    subject = Model(of or parts(), draw=draw, readers={"probe": reader or Script()})
    with torch.no_grad():
        return measure(subject, torch.Generator().manual_seed(0))


def asked(condition: Tensor) -> Tensor:
    """Return the concepts that labels ask for."""
    return condition[..., :-1].argmax(dim=-1)


def faultless(condition: Tensor, generator: torch.Generator) -> Tensor:
    return written(asked(condition))


def test_a_faultless_model_is_right_in_every_group():
    found = measured(faultless, Composition(DEV, samples=10)).measurements
    groups = {"seen": 4, "dev": 1, "test": 3, "level0": 4, "level1": 2, "level2": 1}
    for group, compositions in groups.items():
        for name in ("accuracy", "valid", "accuracy_strict", "accuracy_lenient", "shape_right"):
            assert found[f"{name}@{group}"] == Measurement.rate(
                10 * compositions, 10 * compositions
            )
        # Compared with any condition of its group, one of so many is right.
        assert found[f"accuracy_chance@{group}"].value == pytest.approx(1 / compositions)
    assert found["accuracy@triangle-small-blue"].n == 10


def test_levels_are_those_of_test_compositions():
    found = measured(faultless, Composition(DEV, samples=2)).measurements
    assert found["accuracy@level1"].n == 2 * (len(BINARY.at(1)) - 1)
    found = measured(faultless, Composition(BINARY, samples=2)).measurements
    assert found["accuracy@level1"].n == 2 * len(BINARY.at(1))
    assert "accuracy@dev" not in found


def test_a_model_that_draws_one_thing_is_right_by_chance():
    one = concept_rows(BINARY.factors, [BINARY.at(2)[0]])
    found = measured(lambda c, _: written(one.expand(len(c), -1)), Composition(samples=4))
    assert found.measurements["accuracy@test"].value == pytest.approx(1 / 4)
    assert found.measurements["accuracy_chance@test"].value == pytest.approx(1 / 4)
    assert found.measurements["accuracy_chance@seen"].value == 0
    # What is not valid is not right by chance either.
    found = measured(lambda c, _: written(one.expand(len(c), -1), 3.0), Composition(samples=4))
    assert found.measurements["accuracy_chance@test"].value == 0


def test_all_factors_must_be_right_in_one_valid_image():
    def flawed(condition: Tensor, generator: torch.Generator) -> Tensor:
        rows, away = asked(condition), torch.zeros(len(condition))
        last = torch.arange(len(rows)) >= len(rows) - 10
        rows[last.nonzero()[:3, 0], 0] = 0  # a circle instead of a triangle
        rows[last.nonzero()[3:6, 0], 2] = 0  # red instead of blue
        away[last.nonzero()[6:8, 0]] = 1.5
        return written(rows, away)

    found = measured(flawed, Composition(samples=10)).measurements
    value = {name: found[f"{name}@level2"].value for name in ("shape_right", "colour_right")}
    assert value == {"shape_right": 0.7, "colour_right": 0.7}
    assert found["size_right@level2"].value == 1
    assert found["all_right@level2"].value == 0.4
    assert found["valid@level2"].value == 0.8
    assert found["accuracy@level2"].value == 0.2
    assert found["accuracy@triangle-small-blue"].value == 0.2
    assert found["accuracy@level0"].value == 1


def test_limits_at_half_and_at_double_are_read_beside():
    def odd(condition: Tensor, generator: torch.Generator) -> Tensor:
        return written(asked(condition), 0.3 + 0.6 * (torch.arange(len(condition)) % 4))

    found = measured(odd, Composition(samples=4)).measurements
    rates = {name: found[f"accuracy{name}@test"].value for name in ("_strict", "", "_lenient")}
    assert rates == {"_strict": 0.25, "": 0.5, "_lenient": 0.75}


@pytest.mark.parametrize("drops", [False, True])
def test_models_renders_and_views_are_read_apart(drops: bool):
    class Blackens(Unchanged):
        """A view that loses everything."""

        def back(self, x: Tensor) -> Tensor:
            return torch.zeros_like(x)

    given: list[Tensor] = []

    def white(condition: Tensor, generator: torch.Generator) -> Tensor:
        given.append(condition)
        return 1 + torch.ones(len(condition), 3, 4, 4)

    reader = Script()
    conditioner = FactorDropout(*(LABELS.select, LABELS.encode), share=0.5, when_sampling=drops)
    of = parts(view=Blackens(), conditioner=conditioner)
    measured(white, Composition(samples=8), of, reader)
    model, true, through = reader.seen
    assert (model == 1).all()
    assert (through == 0).all()
    assert 0 < true.mean() < 1
    reader.seen.clear()
    measured(white, Composition(samples=8), parts(), reader)
    # Renders through the view are others than those of the ceiling.
    assert not torch.equal(reader.seen[1], reader.seen[2])
    assert (given[0][..., -1] == 0).any() == drops
    if not drops:
        assert torch.equal(asked(given[0]), torch.stack([*ROWS.values()]).repeat_interleave(8, 0))


def test_true_renders_are_read_by_fitting_in_the_world_of_96():
    split = Coverage(Shapes2D().factors, 18, order=2).split
    measure = Composition(split, samples=4, reader="fit", most=1)
    labels = Conditioner(all_objects, Labels((4, 4, 6)))

    def true(condition: Tensor, generator: torch.Generator) -> Tensor:
        return torch.cat([fresh(Shapes2D(), which, 4, CPU, 50) for which in measure.sampled])

    of = training(world=Shapes2D(among=split.seen), conditioner=labels)
    subject = Model(of, draw=true, readers={"fit": Fit(Shapes2D())})
    with torch.no_grad():
        found = measure(subject, torch.Generator()).measurements
    for whose in ("", "_ceiling", "_view"):
        assert found[f"accuracy{whose}@test"] == Measurement.rate(4, 4)
        assert found[f"valid{whose}@dev"] == Measurement.rate(4, 4)
    for name in ("place", "size", "colour"):
        spread = found[f"{name}_spread@test"]
        assert spread.low < 1 < spread.high


def test_of_each_group_some_compositions_are_sampled():
    few = Composition(samples=2, most=1)
    wanted = {BINARY.at(at)[0] for at in (0, 1, 2)} | {BINARY.test[0]}
    assert set(few.sampled) == wanted
    assert Composition().sampled == EVERY
    found = measured(faultless, few)
    assert found.measurements["accuracy@level1"].n == 2
    assert {name: len(sheet) for name, sheet in found.images.items()} == {"seen": 1, "test": 1}


def test_kept_samples_are_what_the_record_read_and_can_be_read_again():
    def half(condition: Tensor, generator: torch.Generator) -> Tensor:
        rows = asked(condition)
        rows[::2, 1] = 1 - rows[::2, 1]
        return written(rows)

    found = measured(half, Composition(samples=4, kept=4))
    arrays = found.arrays
    assert arrays["samples"].dtype == torch.uint8
    assert arrays["samples"].shape == (4, 4, 3, 4, 4)
    assert torch.equal(arrays["sampled"], concept_rows(BINARY.factors, BINARY.test))
    again = read_again(arrays, Unchanged(), BINARY.factors, Script())
    for name in ("accuracy@test", "valid@test"):
        assert again[name] == found.measurements[name]
    assert again["accuracy@test"].value == 0.5
    # At 63.6 of 255 an image is just valid; it is kept, and read, at 64, where it is not.
    odd = measured(lambda c, _: written(asked(c), 4 * 63.6 / 255), Composition(samples=4, kept=1))
    assert odd.measurements["valid@test"].value == 0
    with pytest.raises(ValueError, match="another decoder"):
        read_again({**arrays, "decoder": torch.tensor([1])}, Unchanged(), BINARY.factors, Script())


def test_a_second_reader_gives_its_opinion():
    class Contrary(Script):
        def __call__(self, images: Tensor) -> Said:
            said = super().__call__(images)
            return Said(1 - said.concepts, said.away)

    for other, value in ((Script(), 1), (Contrary(), None)):
        subject = Model(parts(), draw=faultless, readers={"probe": Script(), "other": other})
        with torch.no_grad():
            found = Composition(samples=4, second="other")(subject, torch.Generator()).measurements
        if value is None:
            assert found["kappa"].value < 0
        else:
            assert found["kappa"].value == pytest.approx(value)
    assert "kappa" not in measured(faultless, Composition(samples=4)).measurements


def test_a_curve_is_summed_up():
    steps = [100 * k for k in range(1, 13)]
    curves: Mapping[str, list] = {
        "accuracy@level0": [[step, min(1.0, 0.1 * k)] for k, step in enumerate(steps)],
        "accuracy@level2": [[step, 0.0 if k < 6 else 0.6] for k, step in enumerate(steps)],
    }
    assert isinstance(Composition(), SumsUp)
    found = Composition().over_training(curves)
    # Of the last ten points four are 0 and six are 0.6.
    assert found["accuracy_late@level2"].value == pytest.approx(0.36)
    assert found["accuracy_late@level2"].n == 10
    assert not any("level1" in name for name in found)


ONLY_SEEN = Split("all", BINARY.factors, EVERY)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Composition(samples=1), "2 samples or more of each; got 1"),
        (lambda: Composition(samples=4, kept=5), "kept samples are 0 to 4 of each; got 5"),
        (lambda: Composition(replace(BINARY, left_out=BINARY.at(1))), "has nothing at level 1"),
        (lambda: Composition(ONLY_SEEN), "split all has no test composition; expected 1 or more"),
        (lambda: Composition(replace(BINARY, dev=BINARY.held_out)), "has no test composition"),
        (
            lambda: measured(faultless, Composition(), parts(world=Circles())),
            "composition is measured on worlds of one object; got Circles",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(wrong: Callable, words: str):
    with pytest.raises(ValueError, match=words):
        wrong()
