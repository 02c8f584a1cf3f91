"""Learning to detect: targets, marred images and the loss."""

from dataclasses import replace
from math import exp, log

import pytest
import torch
from torch import Tensor

from recombine.measure.detection import reading_errors, truth_of
from recombine.models.detector import Detector, DetectorReader, decoded, prepared
from recombine.objectives.detection import (
    Augmentation,
    Detection,
    Targets,
    blurred,
    bumps,
    cells,
    centre_loss,
)
from recombine.render.camera import places
from recombine.scene import Factor
from recombine.train import Step, Weights
from recombine.worlds.clevr import Clevr

FACTORS = (Factor("shape", ("ball", "box")), Factor("colour", ("red", "green", "blue")))
WORLD = Clevr(size=128, objects=(2, 2), margin=False)
STILL = Augmentation((), blur=0.0, noise=0.0, gain=0.0, shift=0.0, patches=0)


def test_targets_hold_place_concepts_and_a_flag():
    scenes = replace(WORLD, objects=(0, 3)).scenes(torch.arange(20), 0)
    targets = Targets(4)(scenes)
    assert targets.shape == (20, 4, 7)
    assert torch.equal(targets[..., -1].sum(dim=1).long(), scenes.present.sum(dim=1))
    there, known = scenes.present, targets[:, :3]
    assert torch.equal(known[there][:, :2], places(scenes)[0][there])
    assert torch.equal(known[there][:, 2:6].long(), scenes.concepts[there])
    assert not known[~there].any()
    assert not targets[:, 3].any()


def test_what_is_outside_the_image_or_absent_is_no_target():
    scenes = WORLD.scenes(torch.arange(1), 0)
    away = scenes.moved(0, torch.tensor([[100.0, 0.0, 0.7]]))
    assert Targets()(away)[0, :2, -1].tolist() == [0, 1]
    nowhere = scenes.moved(0, torch.full((1, 3), torch.nan)).without(0)
    assert Targets()(nowhere).isfinite().all()


def test_targets_say_how_many_objects_they_hold():
    scenes = WORLD.scenes(torch.arange(1), 0)
    with pytest.raises(ValueError, match="targets of 1 objects cannot hold 2 objects"):
        Targets(1)(scenes)
    with pytest.raises(ValueError, match="at least 1 object; got 0"):
        Targets(0)


def test_a_cell_and_the_way_within_it_give_the_place_back(rng: torch.Generator):
    place = torch.rand(3, 4, 2, generator=rng)
    cell, offset = cells(place, 16)
    corner = torch.stack([cell % 16, cell // 16], dim=-1)
    assert torch.allclose((corner + 0.5 + offset) / 16, place, atol=1e-6)
    assert (offset.abs() <= 0.5).all()
    assert cells(torch.tensor([[[0.99, 0.01]]]), 4)[0].tolist() == [[3]]


def naive_bumps(cell: Tensor, present: Tensor, side: int, width: float) -> Tensor:
    """Go through cells and objects one at a time."""
    bump = torch.zeros(len(cell), side, side)
    for image, row, column in torch.cartesian_prod(
        torch.arange(len(cell)), torch.arange(side), torch.arange(side)
    ).tolist():
        for there, at in zip(present[image].tolist(), cell[image].tolist(), strict=True):
            far = (row - at // side) ** 2 + (column - at % side) ** 2
            high = exp(-far / (2 * width**2)) if there else 0.0
            bump[image, row, column] = max(float(bump[image, row, column]), high)
    return bump


def test_bumps_are_those_of_one_cell_at_a_time(rng: torch.Generator):
    cell = torch.randint(49, (3, 4), generator=rng)
    present = torch.tensor([[True] * 4, [True, False, True, False], [False] * 4])
    expected = naive_bumps(cell, present, 7, 0.8)
    assert torch.allclose(bumps(cell, present, 7, 0.8), expected, atol=1e-6)


def test_the_loss_of_a_map_is_its_closed_form():
    """Every logit of a centre is 0; one object, in a map of 3 x 3 cells."""
    answers = torch.zeros(1, 8, 3, 3)
    answers[0, 1:3] = torch.tensor([0.1, -0.2])[:, None, None]
    answers[0, 3:5, 1, 2] = torch.tensor([0.0, log(3)])
    # In the cell of row 1 and column 2, a quarter of a cell right of its middle; a green box.
    targets = torch.tensor([[[2.75 / 3, 0.5, 1, 1, 1], [0.9, 0.9, 1, 2, 0]]])
    near = exp(-1 / 2)
    bump = [[near * exp(-2), near**2, near], [exp(-2), near, 1], [near * exp(-2), near**2, near]]
    false_alarm = sum((1 - high) ** 4 for row in bump for high in row) * log(2) / 4
    focal = false_alarm + log(2) / 4
    distance = abs(0.25 - 0.1) + 0.2
    concept = -log(3 / 4) + log(3)
    loss = Detection(None, 1.0, within_weight=2.0, concept_weight=0.5, factors=FACTORS)
    expected = focal + 2 * distance + 0.5 * concept
    assert float(loss.loss(answers, targets)) == pytest.approx(expected, rel=1e-5)
    # It is a loss per object, so that twice the images cost the same.
    twice = loss.loss(answers.expand(2, -1, -1, -1), targets.expand(2, -1, -1))
    assert float(twice) == pytest.approx(expected, rel=1e-5)


def test_the_focal_loss_is_that_of_one_cell_at_a_time(rng: torch.Generator):
    centre = 2 * torch.randn(2, 5, 5, generator=rng)
    cell = torch.tensor([[3, 17], [11, 0]])
    present = torch.tensor([[True, True], [True, False]])
    bump = bumps(cell, present, 5, 1.0)
    expected = 0.0
    for image in range(2):
        own = [at for at, there in zip(cell[image], present[image], strict=True) if there]
        for at, (logit, high) in enumerate(
            zip(centre[image].flatten().tolist(), bump[image].flatten().tolist(), strict=True)
        ):
            chance = 1 / (1 + exp(-logit))
            if at in own:
                expected -= (1 - chance) ** 2 * log(chance)
            else:
                expected -= (1 - high) ** 4 * chance**2 * log(1 - chance)
    found = float(centre_loss(centre, bump, cell, present))
    assert found == pytest.approx(expected, rel=1e-5)


def perfect(targets: Tensor, factors: tuple[Factor, ...], side: int = 64) -> Tensor:
    """Return the map of answers that says just what the targets say."""
    counts = [len(factor.concepts) for factor in factors]
    answers = torch.full((len(targets), 3 + sum(counts), side, side), -30.0)
    for image, row in enumerate(targets):
        for x, y, *concepts, there in row.tolist():
            if there:
                at = answers[image, :, int(y * side), int(x * side)]
                at[0] = 30
                at[1], at[2] = x * side - int(x * side) - 0.5, y * side - int(y * side) - 0.5
                first = 3
                for concept, count in zip(concepts, counts, strict=True):
                    at[first + int(concept)] = 30
                    first += count
    return answers


def test_the_map_that_costs_nothing_is_the_one_that_is_read_without_error():
    scenes = replace(WORLD, objects=(0, 12)).scenes(torch.arange(12), 3)
    answers = perfect(Targets()(scenes), Clevr.factors)
    assert float(Detection().loss(answers, Targets()(scenes))) == pytest.approx(0, abs=1e-4)
    found = decoded(answers, Clevr.factors, 24)
    found = replace(found, present=found.confidence > 0.5)
    errors = reading_errors(found, truth_of(scenes), Clevr.factors)
    assert errors.pop("distance").value == pytest.approx(0, abs=1e-4)
    assert {each.value for each in errors.values()} == {1.0}


def test_images_are_marred_within_their_range_and_repeatably():
    image = torch.rand(64, 3, 128, 128)
    marred = Augmentation()(image, torch.Generator().manual_seed(1))
    assert marred.shape == image.shape
    assert marred.min() >= 0
    assert marred.max() <= 1
    again = Augmentation()(image, torch.Generator().manual_seed(1))
    assert torch.equal(marred, again)
    assert not torch.equal(marred, Augmentation()(image, torch.Generator().manual_seed(2)))
    different = (marred - image).flatten(1).abs().amax(dim=1)
    assert len(set(different.tolist())) == 64


def test_marring_that_does_nothing_changes_nothing(rng: torch.Generator):
    image = torch.rand(4, 3, 16, 16, generator=rng)
    assert torch.allclose(STILL(image, rng), image, atol=1e-6)


def test_the_declared_share_of_the_images_is_shrunk(rng: torch.Generator):
    # A checkerboard is grey once it has been shrunk to half; to the side it has, it stays.
    board = (torch.arange(16)[:, None] + torch.arange(16)) % 2
    image = board.float().expand(4000, 3, 16, 16)
    marred = replace(STILL, sides=((8, 0.5), (16, 0.2), (4, 0.1)))(image, rng)
    grey = marred.std(dim=(1, 2, 3)) < 0.01
    assert float(grey.float().mean()) == pytest.approx(0.6, abs=0.03)
    assert torch.equal(marred[~grey], image[~grey])


def test_a_render_that_is_shrunk_looks_like_a_small_render(rng: torch.Generator):
    scenes = WORLD.scenes(torch.arange(2), 0)
    shrunk = replace(STILL, sides=((64, 1.0),))(WORLD.image(scenes), rng)
    small, _ = prepared(replace(WORLD, size=64).image(scenes), 128)
    assert float((shrunk - small).abs().mean()) < 0.001


def test_patches_are_small_and_leave_half_of_the_images_alone(rng: torch.Generator):
    image = torch.full((2000, 3, 32, 32), 0.5)
    marred = replace(STILL, patches=2, patch=5)(image, rng)
    changed = (marred != 0.5).any(dim=1)
    assert changed.flatten(1).any(dim=1).float().mean() == pytest.approx(0.5, abs=0.04)
    assert int(changed.flatten(1).sum(dim=1).max()) <= 2 * 25
    one = replace(STILL, patches=1, patch=5)(image, rng)
    rows, columns = ((one != 0.5).any(dim=1).any(dim=axis).sum(dim=1) for axis in (2, 1))
    assert int(rows.max()) <= 5
    assert int(columns.max()) <= 5


def test_colours_change_by_at_most_what_is_declared(rng: torch.Generator):
    image = torch.full((500, 3, 2, 2), 0.5)
    brighter = replace(STILL, gain=0.2)(image, rng)[..., 0, 0]
    assert (brighter - 0.5).abs().max() <= 0.1 + 1e-6
    assert (brighter - 0.5).abs().max() > 0.08
    assert (brighter.std(dim=1) > 1e-3).float().mean() > 0.9
    shifted = replace(STILL, shift=0.1)(image, rng)[..., 0, 0]
    assert torch.allclose(shifted.std(dim=1), torch.zeros(500), atol=1e-6)
    assert 0.08 < (shifted - 0.5).abs().max() <= 0.1 + 1e-6


def test_a_blur_is_a_convolution_with_a_gaussian_of_its_own_width(rng: torch.Generator):
    image = torch.rand(2, 3, 12, 9, generator=rng)
    widths = torch.tensor([0.6, 1.1])
    found = blurred(image, widths)
    for each, width in enumerate(widths.tolist()):
        bell = torch.tensor([exp(-(k**2) / (2 * width**2)) for k in range(-3, 4)])
        kernel = (bell[:, None] * bell / bell.sum() ** 2).expand(3, 1, 7, 7)
        padded = torch.nn.functional.pad(image[each : each + 1], (3, 3, 3, 3), mode="replicate")
        expected = torch.nn.functional.conv2d(padded, kernel, groups=3)
        assert torch.allclose(found[each : each + 1], expected, atol=1e-5)


def test_images_are_blurred_by_up_to_the_declared_width(rng: torch.Generator):
    image = torch.rand(200, 3, 16, 16, generator=rng)
    spread = replace(STILL, blur=1.0)(image, rng).std(dim=(1, 2, 3)) / image.std(dim=(1, 2, 3))
    widest = blurred(image, torch.ones(200)).std(dim=(1, 2, 3)) / image.std(dim=(1, 2, 3))
    assert float(spread.min()) == pytest.approx(float(widest.mean()), abs=0.05)
    assert float((spread > 0.99).float().mean()) > 0.3


@pytest.mark.parametrize("marring", [None, Augmentation()])
def test_the_network_sees_marred_images_where_that_is_declared(marring: Augmentation | None):
    seen = []

    def network(image: Tensor) -> Tensor:
        seen.append(image)
        return image.new_zeros(len(image), 18, 64, 64)

    image = torch.rand(2, 3, 128, 128)
    loss = Detection(marring)
    found = loss(network, image, torch.zeros(2, 12, 7), generator=torch.Generator().manual_seed(3))
    assert float(found) == pytest.approx(2 * 4096 * log(2) / 4, rel=1e-4)
    again = torch.Generator().manual_seed(3)
    assert torch.equal(seen[0], image if marring is None else marring(image, again))


def test_noise_has_at_most_the_declared_strength(rng: torch.Generator):
    image = torch.full((300, 3, 16, 16), 0.5)
    spread = replace(STILL, noise=0.1)(image, rng).std(dim=(1, 2, 3))
    assert 0.08 < float(spread.max()) < 0.11
    # A square of a uniform number is below a quarter half of the time.
    assert (spread < 0.025).float().mean() == pytest.approx(0.5, abs=0.08)


def test_a_bump_without_width_is_refused():
    with pytest.raises(ValueError, match="positive width; got 0"):
        Detection(bump=0.0)


def test_a_detector_learns_two_scenes_by_heart():
    """A small one, on a few fixed images: it then finds their objects and names them."""
    scenes = replace(WORLD, size=64).scenes(torch.arange(4), 1)
    image, targets = replace(WORLD, size=64).image(scenes), Targets(2)(scenes)
    declared = Detector(size=64, widths=(16, 24, 32), blocks=(1, 1, 1))
    weights = Weights.of(declared.build(), 0.5)
    generator = torch.Generator().manual_seed(0)
    step = Step(weights, Detection(None), 1.0, generator)
    step.set_rate(5e-3)
    losses = [float(step(image, targets)) for _ in range(80)]
    assert losses[-1] < 0.1 * losses[0]
    found = DetectorReader(weights.denoiser, declared, threshold=0.4)(image)
    errors = reading_errors(found, truth_of(scenes), Clevr.factors)
    for name in ("exact_count", "precision", "recall"):
        assert errors[name].value == 1
    assert errors["shape_accuracy"].value == 1
    assert errors["distance"].value < 1
