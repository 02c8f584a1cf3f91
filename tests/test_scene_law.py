"""Scenes so small that all can be listed: the numbers of the fact sheet on local scores."""

from itertools import combinations

import pytest
import torch
from torch import Tensor

from recombine.models.mixture import marks_all, marks_one, scene_law, subsets

CELLS = 6


def labelled_scenes(sigma: float, count: int, rng: torch.Generator) -> tuple[Tensor, ...]:
    """Draw as the fact sheet does: subsets uniformly, and the first object of each is told."""
    present = subsets(CELLS)[torch.randint(41, (count,), generator=rng)]
    told = torch.nn.functional.one_hot(present.int().argmax(dim=1), CELLS).double()
    image = torch.where(present, 1.0, -1.0).double()
    spread = (0.25**2 + sigma**2) ** 0.5
    x = image + spread * torch.randn(count, CELLS, generator=rng).double()
    return x, torch.full((count,), sigma, dtype=torch.float64), told, present.double()


def test_with_all_objects_marked_cells_do_not_depend_on_each_other(rng: torch.Generator):
    """T5 of the fact sheet, law of experiment 1."""
    law = scene_law((CELLS,), marks_all)
    for sigma in (0.3, 1.0, 3.0):
        x, level, _, present = labelled_scenes(sigma, 50, rng)
        jacobian = law.jacobian(x, level, present)
        assert (jacobian[:, ~torch.eye(CELLS, dtype=torch.bool)] == 0).all()


@pytest.mark.parametrize("cells", [6, 16])
def test_one_marked_object_speaks_against_all_others(cells: int):
    """Section 5.1 item 8 of the fact sheet: the leak per other cell is -1 / (cells - 1)."""
    law = scene_law((cells,), marks_one)
    told = torch.eye(cells, dtype=torch.float64)[:2]
    told[1] = 0
    weight = law.log_weight(told).softmax(dim=1)
    occupied, prior = (weight @ subsets(cells).double()).unbind()
    change = occupied - prior
    assert prior[0].item() == pytest.approx(2 / cells, abs=1e-12)
    assert change[0].item() == pytest.approx(1 - 2 / cells, abs=1e-12)
    expected = -change[0] / (cells - 1)
    torch.testing.assert_close(change[1:], expected.expand(cells - 1), rtol=0, atol=1e-12)


def test_scene_weights_agree_with_counting():
    """A naive twin: every scene and every way of telling one object of it."""
    chance: dict[tuple[int, tuple[int, ...]], float] = {}
    for count in (1, 2, 3):
        scenes = list(combinations(range(4), count))
        for scene in scenes:
            for cell in scene:
                chance[cell, scene] = 1 / 3 / len(scenes) / count
    law = scene_law((2, 2), marks_one)
    weight = law.log_weight(torch.eye(4)).softmax(dim=1)
    for row, present in enumerate(subsets(4)):
        scene = tuple(present.nonzero().flatten().tolist())
        for cell in range(4):
            total = sum(value for (told, _), value in chance.items() if told == cell)
            expected = chance.get((cell, scene), 0) / total
            assert weight[cell, row].item() == pytest.approx(expected, abs=1e-12)


def test_what_is_told_decides_the_scene_as_far_as_it_can():
    told = torch.tensor([[0, 1, 0, 1, 0, 0], [0] * 6])
    marked, null = scene_law((CELLS,), marks_all).log_weight(told).softmax(dim=1)
    assert marked.max() == 1
    assert subsets(CELLS)[marked.argmax()].int().tolist() == told[0].tolist()
    assert null.unique().numel() == 3


def test_counts_choose_the_scenes():
    assert len(subsets(6)) == 6 + 15 + 20
    assert subsets(4, range(2, 3)).sum(dim=1).tolist() == [2] * 6
    assert len(subsets(5, range(0, 6))) == 2**5


def test_a_scene_is_bright_where_objects_are(rng: torch.Generator):
    law = scene_law((1, 2, 3), marks_all, noise=0.1)
    told = torch.tensor([[[0.0, 1, 0], [0, 0, 1]]]).expand(4000, 2, 3)
    samples = law.sample(told, rng)
    assert samples.shape == (4000, 1, 2, 3)
    torch.testing.assert_close(samples.mean(dim=0)[0].float(), 2 * told[0] - 1, atol=0.01, rtol=0)
    assert samples[:, 0, 0, 0].std().item() == pytest.approx(0.1, rel=0.05)


def test_impossible_conditions_are_named():
    x, sigma = torch.zeros(1, CELLS), torch.ones(1)
    with pytest.raises(ValueError, match=r"never marks objects in the cells \[0, 1, 2, 3\]"):
        scene_law((CELLS,), marks_all)(x, sigma, torch.tensor([[1, 1, 1, 1, 0, 0]]))
    with pytest.raises(ValueError, match=r"never marks objects in the cells \[2, 5\]"):
        scene_law((CELLS,), marks_one)(x, sigma, torch.tensor([[0, 0, 1, 0, 0, 1]]))
    with pytest.raises(ValueError, match="marks 6 cells; got 5"):
        scene_law((CELLS,), marks_one)(x, sigma, torch.ones(1, 5))


def test_impossible_scenes_are_named():
    with pytest.raises(ValueError, match="scenes of 2 cells cannot hold"):
        subsets(2)
    with pytest.raises(ValueError, match="the noise of a cell is positive; got 0"):
        scene_law((4,), marks_one, noise=0.0)
    with pytest.raises(ValueError, match="2796416 scenes: too many to list"):
        scene_law((16, 16), marks_one)
