"""Rays against closed forms, against marching, and against the kernel."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recombine.render import engine, kernel, raycast
from recombine.render import stage as st
from recombine.render.camera import HALF_FIELD, look_at, project
from recombine.render.geometry import NEVER, beyond_reach, blocked, grid_rays, span
from recombine.render.stage import LOOK, Stage
from recombine.scene import SHAPES, Scenes, concatenate
from recombine.worlds import clevr, shapes3d
from recombine.worlds.clevr import Clevr
from recombine.worlds.shapes3d import Shapes3D

CPU = torch.device("cpu")
needs_kernel = pytest.mark.skipif(not kernel.available(CPU), reason="no C++ compiler here")


def clevr_scenes(count: int = 6, objects: tuple[int, int] = (1, 8), jitter: bool = True) -> Scenes:
    return Clevr(objects=objects, jitter=jitter).scenes(torch.arange(count), seed=3)


def alone(shape: str, *, material: int = 0, size: float = 0.7) -> Scenes:
    """One red object at the origin of an unjittered stage."""
    scenes = clevr_scenes(1, (1, 1), jitter=False)
    return replace(
        scenes,
        position=torch.tensor([[[0.0, 0.0, size]]]),
        size=torch.tensor([[size]]),
        rotation=torch.zeros(1, 1),
        colour=torch.tensor([[[0.8, 0.1, 0.1]]]),
        shape=torch.tensor([[SHAPES.index(shape)]]),
        material=torch.tensor([[material]]),
    )


def middle(image: Tensor) -> Tensor:
    return image[..., image.shape[-2] // 2, image.shape[-1] // 2]


# Geometry


def test_the_nearest_point_of_a_sphere_is_a_radius_nearer_than_its_centre():
    """Looking straight down on a sphere, the depth under the axis is known."""
    scenes = replace(alone("sphere"), camera=torch.tensor([[0.0, -0.001, 10.0]]))
    owner, depth = raycast.see(clevr.stage(scenes), 65)
    assert middle(owner).item() == 0
    assert middle(depth).item() == pytest.approx(10 - 1.4, abs=1e-3)


@pytest.mark.parametrize("shape", ["sphere", "cube", "cylinder", "capsule"])
def test_a_silhouette_has_the_area_of_the_solid_seen_from_above(shape: str):
    high = torch.tensor([[0.0, -1e-4, 20.0]])
    scenes = replace(alone(shape), camera=high)
    stage = shapes3d_stage(scenes) if shape == "capsule" else clevr.stage(scenes)
    owner, _ = raycast.see(stage, 512)
    top = 20.0 - (0.7 if shape == "sphere" else 1.4)
    pixel = 2 * HALF_FIELD * top / 512
    area = (owner >= 0).sum().item() * pixel**2
    exact = {"sphere": 1.0, "cube": 4 / math.pi * 0.953**2, "cylinder": 0.993**2, "capsule": 0.36}
    assert area == pytest.approx(exact[shape] * math.pi * 0.49, rel=0.06)


def shapes3d_stage(scenes: Scenes) -> Stage:
    rows = scenes.backdrop.expand(len(scenes), 2, 3)
    stage = shapes3d.stage(replace(scenes, backdrop=rows))
    view = stage.view.clone()
    view[:, :12] = look_at(scenes.camera, torch.zeros_like(scenes.camera))
    view[:, st.ROOM] = st.FAR
    return Stage(view, stage.solids, stage.owner)


def test_a_ray_enters_and_leaves_where_marching_along_it_does(rng: torch.Generator):
    stage = clevr.stage(clevr_scenes(5, (4, 4)))
    for picture in range(5):
        solid = stage.solids[picture, picture % 4][None]
        centre = solid[0, :3]
        origin = centre + 2 * torch.randn(3, generator=rng)
        aim = centre + 0.5 * torch.randn(3, generator=rng) * solid[0, st.REACH]
        ray = aim - origin
        enter, leave = span(_vector(origin), _vector(ray), solid)
        steps = torch.linspace(0, 4, 40001)
        inside = _inside(origin + steps[:, None] * ray, solid[0])
        if not inside.any():
            assert enter > leave
            continue
        first, last = steps[inside][0].item(), steps[inside][-1].item()
        assert max(enter.item(), 0) == pytest.approx(first, abs=2e-4)
        assert leave.item() == pytest.approx(last, abs=2e-4)


def _vector(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return a[0].reshape(1, 1), a[1].reshape(1, 1), a[2].reshape(1, 1)


def _inside(points: Tensor, solid: Tensor) -> Tensor:
    x, y, z = (points - solid[:3]).unbind(-1)
    cosine, sine = solid[st.COSINE], solid[st.SINE]
    x, y = cosine * x + sine * y, cosine * y - sine * x
    box = (x.abs() <= solid[5]) & (y.abs() <= solid[6]) & (z.abs() <= solid[7])
    return box & (x**2 + y**2 + solid[st.ROUND] * z**2 <= solid[st.RADIUS] ** 2)


def test_a_point_is_seen_by_the_ray_through_its_place():
    camera = look_at(torch.tensor([[7.0, -6.0, 5.0]]), torch.zeros(1, 3))
    points = torch.tensor([[[1.0, 2.0, 0.5], [-2.0, 0.3, 1.0]]])
    place, depth = project(camera, points)
    view = torch.cat([camera, torch.zeros(1, 16)], dim=1)
    eye, ray = grid_rays(view, 1000)
    for number in range(2):
        column, row = (place[0, number] * 1000).long().tolist()
        along = torch.stack([r[0, row * 1000 + column] for r in ray])
        start = torch.stack([e[0, 0] for e in eye])
        torch.testing.assert_close(
            start + depth[0, number] * along, points[0, number], atol=1e-2, rtol=0
        )


def test_right_is_right_and_up_is_up():
    camera = look_at(torch.tensor([[0.0, -5.0, 2.0]]), torch.zeros(1, 3))
    points = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
    place, _ = project(camera, points)
    assert place[0, 0, 0] > 0.5
    assert place[0, 1, 1] < 0.5


def test_the_farther_of_two_objects_is_hidden():
    scenes = clevr_scenes(1, (2, 2), jitter=False)
    ray = torch.tensor(clevr.EYE) / torch.tensor(clevr.EYE).norm()
    near, far = ray * 2 + torch.tensor([0, 0, 0.5]), torch.tensor([0.0, 0, 0.5])
    scenes = replace(
        scenes,
        position=torch.stack([far, near])[None],
        size=torch.tensor([[0.3, 0.6]]),
        shape=torch.zeros(1, 2, dtype=torch.int64),
    )
    owner, _ = raycast.see(clevr.stage(scenes), 64)
    assert not (owner == 0).any()
    assert (raycast.see(clevr.stage(scenes.without(1)), 64)[0] == 0).any()


# Light


def test_an_empty_floor_is_lit_as_the_formula_of_a_square_lamp_says():
    """Irradiance of a small Lambertian square: P / pi * cos * cos / r^2, four quarters each."""
    stage = clevr.stage(alone("sphere").without(0))
    bare = replace(LOOK, backdrop=0.0, ambient=0.0)
    image = raycast.trace(stage, 32, bare)
    eye, ray = (
        torch.stack([component[0].expand(64 * 64) for component in vector]).double()
        for vector in grid_rays(stage.view, 64)
    )
    points = eye - eye[2] / ray[2] * ray
    light = torch.zeros(3, 64 * 64, dtype=torch.float64)
    for place, watts, colour, side in zip(
        st.LAMP_POSITIONS, st.LAMP_WATTS, st.LAMP_COLOURS, st.LAMP_SIDES, strict=True
    ):
        place, colour = torch.tensor(place).double(), torch.tensor(colour).double()
        axis = -place / place.norm()
        across = torch.linalg.cross(axis, torch.tensor([0.0, 0, 1]).double())
        across = across / across.norm()
        along = torch.linalg.cross(across, axis)
        column, row = torch.arange(64).repeat(64), torch.arange(64).repeat_interleave(64)
        u, v = ((k % 2) * 0.5 - 0.25 for k in (column, row))
        to = place[:, None] + side * (u * across[:, None] + v * along[:, None]) - points
        distance = to.norm(dim=0)
        leaving, arriving = -(to * axis[:, None]).sum(0) / distance, to[2] / distance
        leaving = leaving.clamp_min(0)
        light += colour[:, None] * watts / math.pi**2 * leaving * arriving / distance**2
    sun = torch.tensor(st.SUN)
    light += st.SUN_STRENGTH / math.pi * (sun[2] / sun.norm()).item()
    expected = raycast.develop((clevr.FLOOR * light).reshape(1, 3, 64, 64).float())
    torch.testing.assert_close(image, expected, atol=2e-3, rtol=0)


def test_a_shadow_falls_away_from_the_lamp():
    stage = clevr.stage(alone("sphere"))
    bare = clevr.stage(alone("sphere").without(0))
    shade = raycast.trace(bare, 64) - raycast.trace(stage, 64)
    camera = stage.view[:, :12]
    key = torch.tensor(st.LAMP_POSITIONS[0])
    away = -key[:2] / key[:2].norm() * 1.3
    for sign, dark in ((1, True), (-1, False)):
        place, _ = project(camera, torch.tensor([[[*(sign * away).tolist(), 0.0]]]))
        column, row = (place[0, 0] * 64).long().tolist()
        assert (shade[0, :, row, column].mean() > 0.02) == dark


@pytest.mark.parametrize(("length", "dark"), [(1.0, False), (3.0, True)])
def test_only_what_stands_before_the_lamp_throws_a_shadow(length: float, dark: bool):
    """A ball two units above the floor, and a lamp below or above it."""
    scenes = replace(alone("sphere"), position=torch.tensor([[[0.0, 0.0, 2.0]]]))
    solids = clevr.stage(scenes).solids
    here, up = _vector(torch.zeros(3)), _vector(torch.tensor([0.0, 0.0, length]))
    outside = beyond_reach(solids, here)
    assert blocked(solids, here, outside, up, until=1.0).item() == dark
    assert blocked(solids, here, outside, up, until=NEVER).item()


def test_a_metal_mirrors_its_neighbour_and_rubber_does_not():
    scenes = clevr_scenes(1, (2, 2), jitter=False)
    scenes = replace(
        scenes,
        position=torch.tensor([[[0.0, 0.0, 0.7], [1.8, -0.3, 0.7]]]),
        size=torch.full((1, 2), 0.7),
        shape=torch.zeros(1, 2, dtype=torch.int64),
        colour=torch.tensor([[[0.6, 0.6, 0.6], [0.9, 0.1, 0.1]]]),
    )
    redness = {}
    for material in (0, 1):
        with_one = replace(scenes, material=torch.tensor([[material, 0]]))
        stage, lonely = clevr.stage(with_one), clevr.stage(with_one.without(1))
        mine = raycast.see(stage, 64)[0] == 0
        change = raycast.trace(stage, 64) - raycast.trace(lonely, 64)
        redness[material] = (change[:, 0] - change[:, 2])[mine].max().item()
    assert redness[1] > 0.1 > 0.05 > redness[0]


def test_what_is_kept_does_for_gradients_even_if_inference_asks_first():
    st.look_numbers.cache_clear()
    with torch.inference_mode():
        assert not st.look_numbers(LOOK).is_inference()
    st.look_numbers.cache_clear()


def test_gradients_are_those_of_finite_differences():
    stage = clevr.stage(alone("cube", material=1))
    column = st.COLOUR + 1

    def brightness(shift: Tensor) -> Tensor:
        solids = stage.solids + shift * torch.nn.functional.one_hot(torch.tensor(column), 16)
        return engine.picture(Stage(stage.view, solids, stage.owner), 16).sum()

    shift = torch.zeros((), requires_grad=True)
    (slope,) = torch.autograd.grad(brightness(shift), shift)
    with torch.no_grad():
        step = torch.tensor(1e-2)
        naive = (brightness(step) - brightness(-step)) / (2 * step)
    assert slope.item() == pytest.approx(naive.item(), rel=2e-2)


# The kernel and its twin

STAGES = {
    "clevr": lambda: clevr.stage(clevr_scenes()),
    "nothing": lambda: clevr.stage(clevr_scenes(2, (0, 0))),
    "gaps": lambda: clevr.stage(clevr_scenes(2, (5, 5)).without(1)),
    "shapes3d": lambda: shapes3d.stage(Shapes3D().scenes(torch.arange(24), seed=1)),
}


@needs_kernel
@pytest.mark.parametrize("size", [16, 27])
@pytest.mark.parametrize("name", STAGES)
def test_the_kernel_equals_its_twin(name: str, size: int):
    stage = STAGES[name]()
    torch.testing.assert_close(
        kernel.trace(stage, size), raycast.trace(stage, size), atol=2e-4, rtol=0
    )
    for ours, theirs in zip(kernel.see(stage, size), raycast.see(stage, size), strict=True):
        assert torch.equal(ours, theirs)


@needs_kernel
def test_no_pictures_are_no_pictures(monkeypatch: pytest.MonkeyPatch):
    stage = STAGES["clevr"]()[:0]
    for _ in range(2):
        assert engine.picture(stage, 8).shape == (0, 3, 8, 8)
        assert engine.see(stage, 8)[0].shape == (0, 8, 8)
        monkeypatch.setattr(kernel, "available", lambda device: False)


def test_pictures_come_back_in_their_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernel, "available", lambda device: False)
    monkeypatch.setattr(engine, "RAYS_AT_ONCE", 1)
    scenes = concatenate([clevr_scenes(1, (count, count)) for count in (3, 0, 2, 1)])
    stage = clevr.stage(scenes)
    torch.testing.assert_close(engine.picture(stage, 8), raycast.trace(stage, 8), atol=1e-5, rtol=0)
    assert torch.equal(engine.see(stage, 8)[0], raycast.see(stage, 8)[0])


def test_visible_counts_pixels_object_by_object():
    stage = clevr.stage(clevr_scenes(3, (2, 5)))
    owner, _ = raycast.see(stage, 32)
    counts = engine.visible(stage, 32, 5)
    for picture in range(3):
        for number in range(5):
            assert counts[picture, number] == (owner[picture] == number).sum()


def test_rays_that_meet_nothing_go_on_for_ever():
    scenes = replace(alone("sphere").without(0), camera=torch.tensor([[3.0, 0.0, 0.1]]))
    _, depth = raycast.see(clevr.stage(scenes), 9)
    assert (depth[0, 0] == NEVER).all()
    assert (depth[0, -1] < NEVER).all()
