"""Exact coverage against areas known from geometry and against a loop over many points."""

from dataclasses import replace
from math import cos, pi, radians, sin

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter
from torch import Tensor

from recombine.render.raster import (
    ARM,
    CIRCLE,
    CROSS,
    SQUARE,
    TRIANGLE,
    blurred,
    centres_inside,
    coverage,
    flat_scenes,
    painted,
)
from recombine.scene import SHAPES, Scenes, concatenate

AREA = {CIRCLE: pi, TRIANGLE: 2.0, SQUARE: 4.0, CROSS: 20 / 9}
ANGLES = st.floats(0, 360)
KINDS = pytest.mark.parametrize("kind", list(AREA), ids=[SHAPES[kind] for kind in AREA])


def alone(kind: int, x: float, y: float, size: float, rotation: float = 0.0) -> Scenes:
    scenes = flat_scenes(
        position=torch.tensor([[x, y]], dtype=torch.float64),
        size=torch.tensor([size], dtype=torch.float64),
        colour=torch.tensor([[0.9, 0.2, 0.1]], dtype=torch.float64),
        shape=torch.tensor([kind]),
        concepts=torch.zeros(1, 1, dtype=torch.int64),
        backdrop=torch.tensor([[0.5, 0.6, 0.7]], dtype=torch.float64),
    )
    return replace(scenes, rotation=torch.full_like(scenes.size, rotation))


def stacked(*scenes: Scenes) -> Scenes:
    """Put the objects of several scenes into one."""
    names = ("position", "size", "rotation", "colour", "shape", "material", "concepts", "present")
    joined = {name: torch.cat([getattr(one, name) for one in scenes], dim=1) for name in names}
    return replace(scenes[0], **joined)


def contains(kind: int, dx: float, dy: float, size: float, rotation: float) -> bool:
    """Say whether a point is inside, from the shape's own description."""
    turn = radians(rotation)
    right, down = dx * cos(turn) + dy * sin(turn), dy * cos(turn) - dx * sin(turn)
    if kind == CIRCLE:
        return dx * dx + dy * dy < size * size
    if kind == SQUARE:
        return abs(right) < size and abs(down) < size
    if kind == CROSS:
        arms = ARM * size
        return max(abs(right), abs(down)) < size and min(abs(right), abs(down)) < arms
    return down < size and abs(right) < (down + size) / 2


def many_points(scenes: Scenes, side: int, extent: float, points: int) -> Tensor:
    """Count points inside, pixel by pixel."""
    (x, y), size = scenes.position[0, 0].tolist(), scenes.size.item()
    kind, rotation = int(scenes.shape.item()), scenes.rotation.item()
    share = torch.zeros(side, side, dtype=torch.float64)
    for row in range(side):
        for column in range(side):
            for a in range(points):
                for b in range(points):
                    px = ((column + (a + 0.5) / points) / side * 2 - 1) * extent
                    py = ((row + (b + 0.5) / points) / side * 2 - 1) * extent
                    share[row, column] += contains(kind, px - x, py - y, size, rotation)
    return share / points**2


@KINDS
@pytest.mark.parametrize("rotation", [0.0, 25.0, 200.0])
def test_coverage_is_the_share_of_many_points(kind: int, rotation: float):
    scenes = alone(kind, 0.31, -0.22, 0.9, rotation)
    twin = many_points(scenes, side=6, extent=1.5, points=20)
    # Rows of 20 points see an edge that is parallel to them with an error of up to 1 / 40.
    torch.testing.assert_close(coverage(scenes, 6, 1.5)[0, 0], twin, atol=0.026, rtol=0)


@KINDS
@given(place=st.tuples(*[st.floats(-0.3, 0.3)] * 2), size=st.floats(1e-3, 0.45), turn=ANGLES)
@settings(max_examples=20, deadline=None)
def test_pixels_add_up_to_the_area(kind: int, place: tuple[float, float], size: float, turn: float):
    share = coverage(alone(kind, *place, size, turn), 12)
    area = AREA[kind] * (size * 12 / 2) ** 2
    assert share.sum().item() == pytest.approx(area, rel=1e-9, abs=1e-9)
    assert share.min() >= 0
    assert share.max() <= 1


@KINDS
def test_single_precision_is_enough_even_for_large_images(kind: int):
    precise = alone(kind, 0.123, -0.077, 0.61, 31.0)
    single = precise.to("cpu")._each(lambda z: z.float() if z.is_floating_point() else z)
    share = coverage(single, 512)
    assert share.dtype == torch.float32
    torch.testing.assert_close(share.double(), coverage(precise, 512), atol=2e-4, rtol=0)


def test_a_disc_over_the_whole_image_covers_every_pixel():
    assert torch.equal(coverage(alone(CIRCLE, 0, 0, 1.5), 8), torch.ones(1, 1, 8, 8).double())


def test_a_shape_beyond_the_border_is_cut_by_it():
    half = coverage(alone(SQUARE, 1.0, 0.0, 0.5), 8)[0, 0]
    assert half.sum().item() == pytest.approx(4 * 4 / 2)
    assert half[2:6, 6:].min() == 1
    assert not coverage(alone(CIRCLE, 3.0, 0.0, 0.5), 8).any()


def test_place_runs_right_and_down_and_a_triangle_stands_on_its_base():
    share = coverage(alone(SQUARE, 0.5, -0.5, 0.5), 4)[0, 0]
    assert torch.equal(share.nonzero(), torch.tensor([[0, 2], [0, 3], [1, 2], [1, 3]]))
    per_row = coverage(alone(TRIANGLE, 0, 0, 1), 4)[0, 0].sum(dim=1)
    torch.testing.assert_close(per_row, torch.tensor([0.5, 1.5, 2.5, 3.5]).double())


def test_rotation_is_clockwise_in_degrees():
    per_column = coverage(alone(TRIANGLE, 0, 0, 1, 90.0), 4)[0, 0].sum(dim=0)
    torch.testing.assert_close(per_column, torch.tensor([3.5, 2.5, 1.5, 0.5]).double())


@KINDS
@pytest.mark.parametrize("rotation", [0.0, 40.0])
def test_coverage_has_exact_derivatives(kind: int, rotation: float):
    scenes = alone(kind, 0.031, -0.022, 0.51, rotation)
    weight = torch.rand(9, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def total(position: Tensor, size: Tensor, turn: Tensor) -> Tensor:
        moved = replace(scenes, position=position, size=size, rotation=turn)
        return (coverage(moved, 9) * weight).sum()

    at = tuple(z.clone().requires_grad_() for z in (scenes.position, scenes.size, scenes.rotation))
    exact = torch.autograd.grad(total(*at), at, materialize_grads=True)
    for which, gradient in enumerate(exact):
        for entry in range(gradient.numel()):
            step = torch.zeros_like(at[which])
            step.view(-1)[entry] = 1e-5
            ahead, behind = (
                total(*(z.detach() + (step * sign if i == which else 0) for i, z in enumerate(at)))
                for sign in (1, -1)
            )
            slope = ((ahead - behind) / 2e-5).item()
            assert gradient.flatten()[entry].item() == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_a_disc_on_the_corner_of_pixels_still_has_a_gradient():
    scenes = alone(CIRCLE, 0.0, 0.0, 0.5)
    position = scenes.position.requires_grad_()
    share = coverage(replace(scenes, position=position), 8)
    (gradient,) = torch.autograd.grad(share[..., 4:].sum(), position)
    # Half the disc is right of the middle: moving it by one pixel lets in its diameter, 4 pixels.
    torch.testing.assert_close(gradient.flatten(), torch.tensor([4.0 * 4, 0.0]).double())


@KINDS
@pytest.mark.parametrize("rotation", [0.0, 73.0])
def test_pixel_centres_are_tested_one_by_one(kind: int, rotation: float):
    scenes = alone(kind, -0.41, 0.17, 0.77, rotation)
    twin = many_points(scenes, side=11, extent=1.1, points=1)
    assert torch.equal(centres_inside(scenes, 11, 1.1)[0, 0], twin.bool())


@pytest.mark.parametrize(("sigma", "side"), [(1.0, 9), (0.6, 9), (2.5, 6)])
def test_the_blur_is_that_of_scipy(sigma: float, side: int):
    share = torch.rand(2, 3, side, side + 1, generator=torch.Generator().manual_seed(0)).double()
    twin = np.stack([[gaussian_filter(z.numpy(), sigma) for z in scene] for scene in share])
    torch.testing.assert_close(blurred(share, sigma), torch.from_numpy(twin))
    assert blurred(share, 0.0) is share


def test_later_objects_cover_earlier_ones():
    below, above = alone(SQUARE, 0, 0, 0.75), alone(SQUARE, 0.25, 0, 0.5)
    above = replace(above, colour=torch.zeros_like(above.colour))
    scenes = stacked(below, above)
    share = coverage(scenes, 8)
    image = painted(share, scenes)[0]
    torch.testing.assert_close(image[:, 4, 4], torch.zeros(3).double())
    torch.testing.assert_close(image[:, 4, 1], below.colour[0, 0])
    torch.testing.assert_close(image[:, 0, 0], below.backdrop[0, 0])


def test_a_pixel_mixes_colours_by_area():
    scenes = alone(SQUARE, 0.0, 0.0, 0.125)
    image = painted(coverage(scenes, 2), scenes)[0]
    mean = scenes.colour[0, 0] / 64 + scenes.backdrop[0, 0] * 63 / 64
    torch.testing.assert_close(image, mean[:, None, None].expand(3, 2, 2))


def test_rounding_in_a_blur_does_not_leave_the_range_of_colours():
    scenes = alone(SQUARE, 0, 0, 1)
    scenes = replace(scenes, colour=scenes.colour * 0, backdrop=torch.ones_like(scenes.backdrop))
    image = painted(torch.tensor([-1e-7, 1 + 1e-7]).double().expand(1, 1, 2, 2), scenes)
    assert image.unique().tolist() == [0, 1]


@KINDS
@pytest.mark.parametrize("x", [0.0, float("nan")])
def test_absent_objects_leave_no_trace_whatever_they_hold(kind: int, x: float):
    here, gone = alone(kind, 0.1, 0.2, 0.5), alone(kind, x, x, 1.0 - x, x)
    gone = replace(gone, colour=gone.colour * x)
    scenes = stacked(here, gone).without(1)
    share = coverage(scenes, 8)
    assert torch.equal(painted(share, scenes), painted(coverage(here, 8), here))
    inside = centres_inside(scenes, 8)
    assert torch.equal(inside[:, 0], centres_inside(here, 8)[:, 0])
    assert not inside[:, 1].any()


def test_absent_objects_may_be_of_any_shape():
    here = alone(CIRCLE, 0.1, 0.2, 0.5)
    scenes = stacked(here, alone(SHAPES.index("cube"), 0, 0, -1)).without(1)
    assert torch.equal(coverage(scenes, 8)[:, :1], coverage(here, 8))


@KINDS
def test_absent_objects_do_not_spoil_gradients(kind: int):
    scenes = stacked(alone(kind, 0.1, 0.2, 0.5), alone(kind, 0, 0, 1)).without(1)
    nothing = float("nan")
    size = torch.tensor([[0.5, 0.0]], dtype=torch.float64, requires_grad=True)
    position = torch.tensor([[[0.1, 0.2], [nothing, nothing]]], dtype=torch.float64)
    position.requires_grad_()
    turn = torch.tensor([[0.0, nothing]], dtype=torch.float64, requires_grad=True)
    coverage(replace(scenes, size=size, position=position, rotation=turn), 8).sum().backward()
    assert size.grad is not None
    # The area in pixels is AREA * (4 size)^2.
    torch.testing.assert_close(size.grad, torch.tensor([[AREA[kind] * 16, 0.0]]).double())
    assert position.grad is not None
    torch.testing.assert_close(position.grad, torch.zeros_like(position.grad))
    if kind != CIRCLE:  # a disc does not turn
        assert turn.grad is not None
        torch.testing.assert_close(turn.grad, torch.zeros_like(turn.grad))


def test_different_shapes_share_a_batch():
    parts = [alone(kind, 0.1, 0.1, 0.6, 10.0) for kind in AREA]
    together = concatenate(parts)
    for draw in (coverage, centres_inside):
        apart = torch.cat([draw(one, 8) for one in parts])
        assert torch.equal(draw(together, 8), apart)


def test_no_scenes_and_no_objects_are_fine():
    scenes = alone(CIRCLE, 0, 0, 1)
    assert coverage(scenes[:0], 4).shape == (0, 1, 4, 4)
    empty = scenes.without(0)
    image = painted(coverage(empty, 4), empty)
    torch.testing.assert_close(image, empty.backdrop[:, 0, :, None, None].expand(1, 3, 4, 4))


def test_what_cannot_be_drawn_says_so():
    solid = alone(SHAPES.index("sphere"), 0, 0, 1)
    with pytest.raises(ValueError, match="circle, triangle, square, cross; got sphere"):
        coverage(solid, 4)
    with pytest.raises(ValueError, match="got shape number 99"):
        centres_inside(alone(99, 0, 0, 1), 4)
    with pytest.raises(ValueError, match="size above 0; got -0.5"):
        coverage(alone(CIRCLE, 0, 0, -0.5), 4)
    deep = replace(solid, position=torch.zeros(1, 1, 3))
    with pytest.raises(ValueError, match="2 coordinates; got 3"):
        coverage(deep, 4)
    with pytest.raises(ValueError, match="at least 0 pixels; got -1"):
        blurred(torch.zeros(1, 1, 4, 4), -1.0)
