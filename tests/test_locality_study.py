"""Locality of a trained model: the scenes, what is left out or moved, and the heat maps."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recombine.condition import Conditioner, Grid, List, all_objects_shuffled
from recombine.measure.ablation import (
    LEVELS,
    Locality,
    ablated,
    elsewhere,
    far_apart,
    gaps,
    heat_maps,
    noisy,
)
from recombine.measure.locality import RADIUS
from recombine.measure.subject import Findings
from recombine.render.camera import places
from recombine.scene import compositions
from recombine.views import Centred
from recombine.worlds.clevr import Clevr
from subjects import CPU, Model, training

SMALL = Locality(levels=(0.05, 6.0, 20.0), samples=2, places=3, lattice=1, views=2)
WORLD = Clevr(
    size=64,
    objects=(1, 3),
    among=tuple(which for which in compositions(Clevr.factors) if which[-1] == "small"),
)
GRID, LIST = (
    training(world=WORLD, conditioner=Conditioner(all_objects_shuffled, encode), view=Centred())
    for encode in (Grid(16), List())
)


def perfect(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
    """Paints every marked cell of a grid, and nothing else; the more noise, the more."""
    cell = x.shape[-1] // condition.shape[-1]
    grid = condition.repeat_interleave(cell, 1).repeat_interleave(cell, 2)[:, None]
    share = (sigma / (1 + sigma))[:, None, None, None]
    return (1 - share) * x + share * grid


def same(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
    """Paints the number of marked cells everywhere."""
    return x + condition.sum(dim=(1, 2))[:, None, None, None]


def measured(denoiser=perfect, of=GRID, measure: Locality = SMALL) -> Findings:
    return measure(Model(of, precise=denoiser), torch.Generator().manual_seed(0))


def test_the_declared_settings_are_used():
    usual = Locality()
    assert (usual.samples, usual.places, usual.lattice, len(usual.levels)) == (32, 4, 4, 12)
    assert (LEVELS[0], LEVELS[-1]) == (pytest.approx(0.05), pytest.approx(20))
    ratios = [b / a for a, b in zip(LEVELS, LEVELS[1:], strict=False)]
    assert max(ratios) == pytest.approx(min(ratios))


def test_a_local_model_is_found_to_be_local_in_full_precision():
    """The denoiser in mixed precision raises when it is called."""
    found = measured()
    for name in ("conditional_locality", "conditional_locality_moved", "pixel_locality"):
        assert found.measurements[name].value == pytest.approx(1, abs=1e-4)
    assert found.measurements["leak"].value == pytest.approx(0, abs=1e-4)
    assert found.measurements["conditional_locality"].n == 2
    assert not found.undefined


def test_lists_of_places_are_measured_too():
    def depending(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return perfect(x, sigma, Grid(16).at(condition[..., :2], condition[..., 2] != 0))

    found = measured(depending, LIST)
    assert found.measurements["conditional_locality"].value == pytest.approx(1, abs=1e-4)


def test_a_model_that_only_counts_is_found_to_be_global():
    found = measured(same)
    assert found.measurements["conditional_locality"].value == pytest.approx(1 / 3)
    shares = found.arrays["locality_objects@6"]
    torch.testing.assert_close(shares, torch.full((3, 3), 1 / 3).half())
    # Moving an object does not change how many there are.
    assert "conditional_locality_moved" in found.undefined


def test_the_maps_of_a_scene_show_what_its_places_depend_on():
    found = measured()
    place = found.arrays["locality_places"]
    assert place.shape == (3, 2)
    levels = [name.split("@")[1] for name in found.arrays if name.startswith("locality_map@")]
    assert levels == ["0.05", "6", "20"]
    for level in levels:
        torch.testing.assert_close(found.arrays[f"locality_objects@{level}"], torch.eye(3).half())
        maps = found.arrays[f"locality_map@{level}"]
        assert (maps.shape, maps.dtype) == ((3, 32, 32), torch.uint8)
        column, row = (32 * place).long().unbind(dim=1)
        assert maps[range(3), row, column].tolist() == [255] * 3
        assert maps.sum(dim=(1, 2)).tolist() == [255] * 3


def test_the_shares_of_objects_at_a_place_add_up_to_one():
    """An object moves all places by the column of its cell, and its own by 8 more."""
    ramp = torch.arange(16.0)

    def uneven(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        own = condition.repeat_interleave(4, 1).repeat_interleave(4, 2)
        return x + (8 * own + (condition * ramp).sum(dim=(1, 2), keepdim=True))[:, None]

    arrays = measured(uneven).arrays
    column = (16 * arrays["locality_places"][:, 0]).floor()
    # Of the 5 x 5 pixels of a place, 4 x 4 are of its own cell.
    influence = column.expand(3, 3) + 8 * 16 / 25 * torch.eye(3)
    expected = influence / influence.sum(dim=1, keepdim=True)
    assert not torch.allclose(expected, expected.T, atol=0.05)
    found = arrays["locality_objects@20"].float()
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)


def test_progress_is_watched_level_by_level():
    subject = Model(GRID, precise=perfect)
    SMALL(subject, torch.Generator().manual_seed(0))
    assert subject.watched == [(2, 6), (4, 6), (6, 6)]


# Scenes, and what is left out or moved


def test_scenes_have_places_that_are_apart():
    scenes = far_apart(WORLD, 4, 8, CPU)
    assert len(scenes) == 8
    assert scenes.present.sum(dim=1).tolist() == [4] * 8
    place, _ = Grid(16).requested(places(scenes)[0], scenes.present)
    away = gaps(place, place)
    assert (away.diagonal(dim1=1, dim2=2) == 0).all()
    assert (away + torch.eye(4) > RADIUS).all()
    again = far_apart(WORLD, 4, 4, CPU)
    assert torch.equal(again.position, scenes.position[:4])


def test_too_crowded_a_world_is_refused():
    with pytest.raises(ValueError, match="too few scenes of .* have 12 objects that far apart"):
        far_apart(WORLD, 12, 1, CPU)


def test_gaps_are_the_larger_of_across_and_down():
    one, other = torch.tensor([[[0.1, 0.2]]]), torch.tensor([[[0.4, 0.1], [0.2, 0.9]]])
    torch.testing.assert_close(gaps(one, other), torch.tensor([[[0.3, 0.7]]]))


def test_a_moved_object_goes_where_none_of_the_scene_is(rng: torch.Generator):
    place = torch.rand(16, 3, 2, generator=rng)
    target = elsewhere(place, rng)
    assert (gaps(place, target[:, None]) > RADIUS).all()
    flat = place.flatten(0, 1).tolist()
    assert all(each in flat for each in target.tolist())


def test_each_object_is_left_out_and_moved_in_turn(rng: torch.Generator):
    scenes = far_apart(WORLD, 3, 4, CPU)
    condition, ablations = ablated(scenes, Grid(16), rng)
    assert torch.equal(condition, Grid(16)(scenes))
    column, row = (ablations.place * 16).long().unbind(dim=-1)
    image = torch.arange(4)
    for index in range(3):
        assert torch.equal(ablations.without[index], Grid(16)(scenes.without(index)))
        moved = ablations.moved[index] - condition
        assert moved.sum(dim=(1, 2)).tolist() == [0] * 4
        assert (moved[image, row[:, index], column[:, index]] == -1).all()
        assert (moved.abs().sum(dim=(1, 2)) == 2).all()
    condition, ablations = ablated(scenes, List(), rng)
    assert (condition[..., 2].sum(dim=1) == 3).all()
    assert (ablations.without[..., 2].sum(dim=2) == 2).all()
    assert (ablations.moved[..., 2].sum(dim=2) == 3).all()


def test_noise_has_the_level_that_is_given(rng: torch.Generator):
    image = torch.rand(4, 3, 64, 64, generator=rng)
    x, sigma = noisy(image, 6.0, rng)
    assert sigma.tolist() == [6.0] * 4
    assert float((x - image).std()) == pytest.approx(6, rel=0.02)
    assert float((x - image).mean()) == pytest.approx(0, abs=0.1)


def test_a_map_is_kept_small_and_its_largest_is_255():
    heat = torch.zeros(2, 64, 64)
    heat[0, 10, 20], heat[0, 40, 41] = 4.0, 2.0
    maps = heat_maps(heat)
    assert (maps[0, 5, 10], maps[0, 20, 20]) == (255, 128)
    assert int((maps == 0).sum()) == 2 * 32 * 32 - 2


@pytest.mark.parametrize("change", [{"samples": 1}, {"places": 1}, {"levels": ()}])
def test_settings_that_make_no_sense_are_refused(change: dict):
    with pytest.raises(ValueError, match="levels, 2 samples and 2 places or more; got Locality"):
        replace(SMALL, **change)
