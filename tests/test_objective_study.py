"""The objectives' study, tiny, on the shipped tokenizers and probe."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from dataset_files import write_celeba
from recombine import run, views, zoo
from recombine.checkpoint import checkpoints
from recombine.commands.run import seeded
from recombine.experiment import Experiment, Trained
from recombine.experiments import (
    autoencoder,
    conditioning,
    declared,
    jepa,
    objective,
    other_worlds,
    probe,
    still,
    tokenizer,
)
from recombine.experiments.probe import fresh
from recombine.measure.composition import LATE
from recombine.models.blocks import parameters_of
from recombine.models.dit import DiT
from recombine.models.probe import Probe
from recombine.objectives.jepa import Jepa, WithJepa
from recombine.objectives.masked import Blocks
from recombine.report.record import Record
from recombine.sample.unmask import Unmask
from recombine.scene import concept_rows
from recombine.split import BINARY
from recombine.views import Unchanged
from recombine.worlds.shapes2d import COLOURS, SIZES, Shapes2D

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        *[("objective", each) for each in ("dit_kl", "dit_vq", "maskgit", "mar", "givt")],
        ("conditioning", "full_dropout_when_sampling"),
        ("jepa", "base"),
        ("jepa", "blocks"),
        ("jepa", "dit"),
        ("objective", "mar_steered"),
        ("points", "base"),
        ("points", "jepa_steered"),
        ("points", "squared"),
        ("points", "squared_jepa"),
        ("loss_or_masks", "named"),
        ("loss_or_masks", "squared"),
    ],
)
def test_every_kind_of_model_runs_tiny_from_data_to_record(tmp_path: Path, name: str, variant: str):
    (plan,) = seeded(name, variant, [], True, {"steps": 3})
    record = run.run(plan, run.machine(CPU), run.Settings(tmp_path))
    assert isinstance(record, Record)
    for whose in ("", "_ceiling", "_view"):
        assert record.measurements[f"accuracy{whose}@level2"].n == 2
        assert record.measurements[f"accuracy{whose}@level0"].n == 8
    images = [path.name for path in (plan.folder(tmp_path) / "samples").iterdir()]
    assert "triangle-small-blue-3.png" in images
    with_jepa = isinstance(plan.experiment.objective, WithJepa)
    assert ("target_rank" in record.measurements) == with_jepa
    # A second run has nothing left to do.
    assert run.run(plan, run.machine(CPU), run.Settings(tmp_path)) == record


def test_a_model_of_shapes3d_runs_tiny_on_the_shipped_tokenizer(tmp_path: Path):
    """Of 240 compositions four of each level are asked for, the first of the grid."""
    (plan,) = seeded("other_worlds", "maskgit_shapes3d", [], True, {"steps": 1})
    record = run.run(plan, run.machine(CPU), run.Settings(tmp_path))
    assert isinstance(record, Record)
    assert [record.measurements[f"accuracy@level{level}"].n for level in (0, 1, 2)] == [8, 8, 8]
    (ask,) = plan.experiment.asks
    assert len(ask.asked) == 12
    assert set(ask.split.at(2)[:4]) < set(ask.asked)
    one = objective.Composition(samples=2, renders=8, most=1)
    pictures = torch.cat([fresh(Shapes2D(), which, 2, CPU) for which in one.asked])
    found = one.read(pictures, Shapes2D(), "")
    assert found["accuracy_nearest@level1"] == found["accuracy_nearest@circle-small-blue"]
    assert found["accuracy_nearest@level1"].value == 1
    whole = objective.Composition()
    assert whole.asked == whole.tiny().asked == BINARY.asked


def test_composition_is_not_asked_of_a_split_with_an_empty_level():
    with pytest.raises(ValueError, match="split binary has nothing at level 1; its levels: 0, 2"):
        objective.Composition(split=replace(BINARY, left_out=BINARY.at(1)))


def test_the_shipped_tokenizers_of_shapes3d_keep_what_the_probe_reads():
    """Of compositions they have not learned from; two renders of each."""
    here = other_worlds.dit_kl_shapes3d
    (ask,) = here.asks
    which = ask.split.at(2)
    renders = torch.cat([fresh(here.world, each, 2, CPU) for each in which])
    true = concept_rows(ask.split.factors, which).repeat_interleave(2, dim=0)
    read = zoo.probe(ask.probe, ask.reader, CPU)
    for view in (here.view, other_worlds.dit_vq_shapes3d.view, other_worlds.maskgit_shapes3d.view):
        through = read(view.back(view(renders)).clamp(0, 1))
        assert (through == true).all(dim=1).float().mean() > 0.8


def test_what_may_repair_a_small_maskgit_differs_from_it_as_it_says():
    beside = {
        "base": (jepa.small, 1.0),
        "less": (jepa.small, 0.3),
        "more": (jepa.small, 3.0),
        "maskgit": (objective.maskgit_small, 1.0),
        "maskgit_less": (objective.maskgit_small, 0.3),
        "jepa_steered": (jepa.steered_small, 1.0),
    }
    variants = dict(declared()["repair"])
    blocks = variants.pop("blocks")
    assert blocks.objective == replace(
        jepa.small.objective, objective=replace(jepa.small.objective.objective, mask=Blocks())
    )
    assert (blocks.budget, blocks.network) == (jepa.small.budget, jepa.small.network)
    assert set(variants) == set(beside)
    for name, (alone, decay) in beside.items():
        budget = replace(alone.budget, weight_decay=decay)
        assert variants[name] == replace(alone, question=variants[name].question, budget=budget)


def test_the_papers_size_is_looked_at_once():
    """12 layers of width 384; JEPA at the layers that a reader's notes name as best."""
    for name in ("vq", "maskgit", "with_jepa"):
        large = declared()["still"][f"{name}_large"]
        assert (large.network.layers, large.network.width, large.seeds) == (12, 384, (0,))
    assert still.with_jepa_large.objective.jepa == Jepa(layers=(7, 9, 11), normalised=True)


def test_weights_decay_as_the_budget_says(tmp_path: Path):
    (plan,) = seeded("repair", "less", [], True, {"steps": 1})
    session = run.Session(plan, run.machine(CPU), run.Settings(tmp_path))
    assert session.weights.optimizer.param_groups[0]["weight_decay"] == 0.3


def test_jepa_learns_from_the_average_of_the_run(tmp_path: Path):
    (plan,) = seeded("jepa", "base", [], True, {"steps": 3})
    seen: list[object] = []

    def spied(self, model, tokens, condition, *, generator, average):
        seen.append(average)
        return self.objective(model, tokens, condition, generator=generator)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WithJepa, "__call__", spied)
        session = run.Session(plan, run.machine(CPU), run.Settings(tmp_path))
        session.open()
        for _ in session.steps(threading.Event()):
            pass
    assert seen == [session.weights.average.module] * 3


def test_views_lead_there_and_back():
    image = Shapes2D().image(Shapes2D().scenes(torch.arange(3), 0))
    for view in (objective.dit_kl.view, objective.dit_vq.view, objective.maskgit.view):
        seen = view(image)
        assert seen.shape[-2:] == (7, 7)
        assert view.back(seen).shape == image.shape
    codes, vectors = objective.maskgit.view, objective.dit_vq.view
    # Codes and their vectors are two ways to say the same.
    assert torch.allclose(codes.back(codes(image)), vectors.back(vectors(image)), atol=1e-5)
    assert not seen.is_floating_point()
    assert seen.max() < 256


def test_latents_spread_by_one():
    world = Shapes2D(among=BINARY.seen)
    image = world.image(world.scenes(torch.arange(512), 5))
    for view in (objective.dit_kl.view, objective.dit_vq.view):
        spread = view(image).var(dim=(0, 2, 3), correction=0).mean().sqrt()
        assert spread.item() == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize(("view", "least"), [("dit_kl", 0.99), ("dit_vq", 0.85)])
def test_what_a_tokenizer_never_saw_can_still_be_read(view: str, least: float):
    """Renders of every level, seen through it and back, by the shipped probe."""
    through, read = getattr(objective, view).view, zoo.probe("probe", Probe(), CPU)
    for level in BINARY.levels:
        rows = [
            read(through.back(through(fresh(Shapes2D(), which, 32, CPU))))
            == concept_rows(Shapes2D().factors, (which,))
            for which in BINARY.at(level)
        ]
        right = torch.cat(rows).all(dim=1).float().mean()
        assert right >= (1 if level == 0 else least)


def test_what_is_not_shipped_is_named():
    missing = replace(objective.dit_kl.view, name="tokenizer_lk")
    with pytest.raises(ValueError, match="zoo:tokenizer_lk is not one of .*did you mean"):
        missing(torch.zeros(1, 3, 28, 28))
    wide = replace(objective.dit_kl.view, of=replace(autoencoder.KL, width=32))
    with pytest.raises(ValueError, match=r"tokenizer_kl\.safetensors: "):
        wide(torch.zeros(1, 3, 28, 28))


@pytest.fixture(autouse=True)
def nothing_is_kept():
    """Probes and renders are changed below: what was read of them before must not be used."""
    objective.renders_read.cache_clear()
    yield
    objective.renders_read.cache_clear()


@contextmanager
def forgotten(*caches: Any) -> Iterator[None]:
    """Keep nothing that was read meanwhile: others may ask for the same names."""
    yield
    for each in caches:
        each.cache_clear()


def test_faces_are_studied_from_files(tmp_path: Path):
    """From five faces of each composition to a record, by a probe and tokenizers of faces."""
    marks = itertools.product(["Male", ""], ["Smiling", ""], ["Black_Hair", "Blond_Hair"])
    folder = write_celeba(tmp_path / "celeba", [set(each) - {""} for each in marks] * 5)

    def recorded(name: str, variant: str) -> tuple[Record | None, Path]:
        (plan,) = seeded(name, variant, [], True, {"steps": 2})
        of = plan.experiment
        world = replace(of.world, folder=folder, tested=(4, 4))
        asks = tuple(replace(ask, samples=2) for ask in of.asks)
        plan = replace(plan, experiment=replace(of, world=world, asks=asks))
        return run.run(plan, run.machine(CPU), run.Settings(tmp_path)), plan.folder(tmp_path)

    (tmp_path / "zoo").mkdir()
    with (
        pytest.MonkeyPatch.context() as patch,
        forgotten(views.tokenizer, views._spread, zoo.probe),
    ):
        patch.setattr(zoo, "FOLDER", tmp_path / "zoo")
        for name, variant, shipped in (
            ("probe", "celeba", "probe_celeba"),
            ("autoencoder", "vq_celeba", "tokenizer_vq_celeba"),
            ("autoencoder", "kl_celeba", "tokenizer_kl_celeba"),
        ):
            _, run_folder = recorded(name, variant)
            (last, *_) = checkpoints(run_folder)
            zoo.ship(last, run_folder / "record.json", shipped, tmp_path / "zoo")
        for name, variant in (("other_worlds", "dit_kl_celeba"), ("other_worlds", "jepa_celeba")):
            record, _ = recorded(name, variant)
            assert record is not None
            assert record.measurements["accuracy_view@level0"].n == 8
            assert record.measurements["accuracy@level2"].n == 2


def test_compositions_are_asked_for_by_their_means():
    scenes = objective.means(Shapes2D(), ("triangle", "small", "blue"), 3, CPU)
    assert torch.equal(scenes.size, torch.full((3, 1), SIZES["small"]))
    assert torch.equal(scenes.colour[:, 0], torch.tensor([COLOURS["blue"]] * 3))
    assert scenes.concepts[:, 0].tolist() == [[1, 1, 1]] * 3


def test_the_study_is_about_one_thing_at_a_time():
    base = objective.dit_kl
    for name in ("dit_vq", "dit_pixels", "maskgit", "mar", "givt", "mar_steered"):
        other: Experiment = getattr(objective, name)
        assert (other.world, other.budget, other.conditioner) == (
            base.world,
            base.budget,
            base.conditioner,
        )
        assert parameters_of(other.network) <= 4e6
    assert base.world == autoencoder.vq.world
    mar = objective.mar
    assert mar.network.head.sigma_data == mar.objective.diffusion.sigma_data
    other = replace(objective.maskgit, sampler=Unmask(noise=0.0))
    assert other.digest == objective.maskgit.digest
    assert tokenizer.kl == base
    assert isinstance(conditioning.full.network, DiT)
    beside = {
        "dit": objective.dit_vq,
        **{name: objective.maskgit_small for name in declared()["jepa"] if "small" in name},
        "steered_small": objective.maskgit_steered_small,
    }
    for name, experiment in declared()["jepa"].items():
        alone = beside.get(name, objective.maskgit)
        for part in ("world", "network", "budget", "conditioner", "sampler", "view"):
            assert getattr(experiment, part) == getattr(alone, part), name
    assert jepa.base.objective.objective == objective.maskgit.objective


def test_other_worlds_have_the_same_models():
    """Of the same size and rates; in Shapes3D as many tokens, codes and labels as that takes."""
    there = declared()["other_worlds"]
    for name in ("dit_kl", "maskgit"):
        here = getattr(objective, name)
        for world in ("shapes3d", "celeba"):
            other = there[f"{name}_{world}"]
            for part in ("objective", "sampler", "headline"):
                assert getattr(other, part) == getattr(here, part)
            for part in ("width", "layers", "heads"):
                assert getattr(other.network, part) == getattr(here.network, part)
            assert other.budget.learning_rate == here.budget.learning_rate
            assert other.budget.milestones[-1] == other.budget.steps
    assert there["maskgit_steered_shapes3d"].network.steered
    for world in ("shapes3d", "celeba"):
        assert there[f"jepa_{world}"].objective.objective == objective.maskgit.objective
        assert there[f"jepa_{world}"].objective.jepa.normalised
    assert {each.seeds for name, each in there.items() if "shapes3d" in name} == {(0,)}
    for network in (each.network for each in there.values()):
        assert parameters_of(network) <= 4e6


@pytest.mark.parametrize("name", [each for each in declared()["other_worlds"] if "3d" in each])
def test_a_model_of_shapes3d_learns_from_what_it_is_told_there(name: str):
    """Labels of ten hues, three shapes and eight scales fit the network, and so do its tokens."""
    experiment = declared()["other_worlds"][name]
    scenes = experiment.world.scenes(torch.arange(2), 0)
    generator = torch.Generator().manual_seed(0)
    told = experiment.conditioner(scenes, generator)
    codes = isinstance(experiment.view, views.Codes)
    seen = torch.randint(256, (2, 16, 16)) if codes else torch.randn(2, 8, 16, 16)
    module = experiment.denoiser()
    besides = {"average": module} if isinstance(experiment.objective, WithJepa) else {}
    loss = experiment.objective(module, seen, told, generator=generator, **besides)
    assert loss.isfinite()


def test_late_means_are_of_the_second_half_of_training():
    every = [each for variants in declared().values() for each in variants.values()]
    looked_at = [
        each.budget
        for each in every
        if isinstance(each, Experiment)
        and any(isinstance(ask, objective.Composition) for ask in each.asks)
        and each.budget.milestones
    ]
    assert len(looked_at) > 50
    assert all(budget.milestones[-LATE] > budget.steps / 2 for budget in looked_at)


def test_size_and_training_are_crossed():
    """Of each model four: large or small, trained for long or not; in these two, one is changed."""
    crossed = declared()["setting"]
    for name in ("maskgit", "dit_vq", "dit_kl"):
        both, neither = (getattr(objective, each) for each in (f"{name}_small", name))
        narrow, short = crossed[f"{name}_narrow"], crossed[f"{name}_short"]
        assert (narrow.network, narrow.budget) == (both.network, neither.budget)
        assert (short.network, short.budget) == (neither.network, both.budget)
        for other in (narrow, short):
            for part in ("world", "conditioner", "objective", "sampler", "view", "asks"):
                assert getattr(other, part) == getattr(neither, part), name


def test_the_curve_of_training_is_judged():
    ask = objective.maskgit.asks[0]
    steps = [[step, 0.9] for step in range(1, 21)]
    curves = {"accuracy@level0": steps, "accuracy@level2": [[step, 0.1] for step, _ in steps]}
    found = ask.looked_back(objective.maskgit, curves).measurements
    assert found["accuracy_late@level2"].verdict == "as asked (<= 0.2)"
    assert found["accuracy_late@level2"].paper == 0.01
    other = {**curves, "accuracy_nearest@level2": [[step, 0.01 * step] for step, _ in steps]}
    other["accuracy_agreed@level2"] = [[step, 0.005 * step] for step, _ in steps]
    other["accuracy_linear@level1"] = [[step, 0.02 * step] for step, _ in steps]
    found = ask.looked_back(objective.maskgit, other).measurements
    for name, value in (
        ("nearest_late@level2", 0.155),
        ("linear_late@level1", 0.31),
        ("agreed_late@level2", 0.0775),
    ):
        late = found[f"accuracy_{name}"]
        assert late.value == pytest.approx(value)
        assert (late.n, late.verdict) == (10, None)
    one = {**curves, "accuracy_nearest@level2": [[1, 0.5]]}
    found = ask.looked_back(objective.maskgit, one).measurements
    assert not any("nearest" in name for name in found)
    low = {**curves, "accuracy@level0": [[step, 0.5] for step, _ in steps]}
    judged = ask.looked_back(objective.maskgit, low).measurements["accuracy_late@level2"]
    assert judged.verdict.startswith("undertrained")


def test_a_perfect_model_and_a_perfect_view_have_no_distance(monkeypatch: pytest.MonkeyPatch):
    """In the mean: several compositions of a level, and renders that are seen twice, spoil it."""
    experiment = replace(objective.dit_pixels, view=Unchanged())
    trained = Trained(experiment, lambda x, sigma, condition: x, CPU)
    ask = replace(experiment.asks[0], samples=12, linear=None, renders=0)
    world = replace(experiment.world, among=())

    def perfect(self, condition: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        drawn = [fresh(world, which, 12, CPU, first=1_000) for which in BINARY.asked]
        return torch.cat(drawn)

    monkeypatch.setattr(Trained, "images", perfect)
    found = []
    for seed in range(16):
        monkeypatch.setattr(probe, "FRESH", seed)
        objective.renders_read.cache_clear()
        with torch.no_grad():
            found.append(ask(trained, torch.Generator().manual_seed(0)).measurements)
    for whose, level in itertools.product(("", "_view"), (0, 2)):
        far = [each[f"kernel_distance{whose}@level{level}"].value for each in found]
        error = torch.tensor(far).std().item() / 4
        assert abs(fmean(far)) < 3.5 * error


def test_other_readers_see_what_is_drawn_instead(monkeypatch: pytest.MonkeyPatch):
    """A model that knows no triangles: circles in their place, of the right size and colour."""
    experiment = replace(objective.dit_pixels, view=Unchanged())
    trained = Trained(experiment, lambda x, sigma, condition: x, CPU)
    ask = replace(experiment.asks[0], samples=6, renders=256)
    asked = [("circle", *which[1:]) for which in BINARY.asked]
    drawn = torch.cat([fresh(experiment.world, which, 6, CPU, first=500) for which in asked])
    monkeypatch.setattr(Trained, "images", lambda *_: drawn)
    with torch.no_grad():
        found = ask(trained, torch.Generator().manual_seed(0)).measurements
    for who in ("", "_linear", "_nearest", "_agreed"):
        assert found[f"accuracy{who}@circle-small-blue"].value == 1
        assert found[f"accuracy{who}@triangle-small-blue"].value == 0
        assert found[f"accuracy{who}@level1"].value == pytest.approx(1 / 3)
        for whose in ("_ceiling", "_view"):
            assert found[f"accuracy{who}{whose}@level2"].value == 1
    # The nearest render of the very composition, one image at a time.
    own = {}
    for which, images in zip(BINARY.asked, drawn.split(6), strict=True):
        renders = fresh(experiment.world, which, 256, CPU, first=objective.AGAIN)
        far = [(renders - each).square().mean(dim=(1, 2, 3)).sqrt().min() for each in images]
        own[which] = fmean(map(float, far))
    for level in (0, 1, 2):
        apart = found[f"render_distance@level{level}"]
        mine = [own[which] for which in BINARY.at(level)]
        assert apart.value == pytest.approx(fmean(mine), rel=1e-4)
        assert apart.n == 6 * len(mine)
    assert found["render_distance@level2"].value > 2 * found["render_distance_view@level2"].value
    # True renders are not compared with themselves.
    assert min(found[f"render_distance_ceiling@level{level}"].value for level in (0, 1, 2)) > 0.005
    assert found["shape_right_nearest@level2"].value == 0
    assert found["colour_right_linear@level2"].value == 1


def test_a_reader_who_differs_leaves_nothing_agreed(monkeypatch: pytest.MonkeyPatch):
    """The nearest of no renders but circles sees no triangle, where a probe does."""
    monkeypatch.setattr(
        objective,
        "nearest",
        lambda images, renders: torch.tensor([0.0] + [1.0] * 7).repeat(len(images), 1),
    )
    world = objective.dit_pixels.world
    ask = replace(objective.dit_pixels.asks[0], samples=4, renders=2, linear=None)
    images = torch.cat([fresh(world, which, 4, CPU) for which in BINARY.asked])
    found = ask.read(images, world, "")
    first = "-".join(BINARY.asked[0])
    assert found[f"accuracy_agreed@{first}"].value == 1
    assert found["accuracy@level2"].value == 1
    assert found["accuracy_agreed@level2"].value == found["shape_right_agreed@level2"].value == 0
    alone = replace(ask, renders=0).read(images, world, "")
    assert not any("agreed" in name for name in alone)


def test_each_reader_reads_with_its_own_weights(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, bool]] = []
    known = zoo.probe

    def noted(name: str, of: Probe, device: torch.device):
        asked.append((name, of.linear))
        return known(name, of, device)

    monkeypatch.setattr(zoo, "probe", noted)
    experiment = replace(objective.dit_pixels, view=Unchanged())
    monkeypatch.setattr(Trained, "images", lambda self, told, _: torch.ones(len(told), 3, 28, 28))
    trained = Trained(experiment, lambda x, sigma, condition: x, CPU)
    ask = experiment.asks[0].tiny()
    with torch.no_grad():
        first = ask(trained, torch.Generator().manual_seed(0))
    assert asked.count(("probe_linear", True)) == 3
    assert set(asked) == {("probe", False), ("probe_linear", True)}
    # At the next look true renders and the view are what they were: only the model is read.
    with torch.no_grad():
        again = ask(trained, torch.Generator().manual_seed(0))
    assert asked.count(("probe_linear", True)) == 4
    assert again.measurements == first.measurements


def test_renders_of_few_images_are_without_end():
    few = replace(objective.maskgit_few.world, images=3)
    renders = fresh(few, BINARY.asked[0], 20, CPU)
    assert len(renders.flatten(1).unique(dim=0)) == 20
    assert torch.equal(renders, fresh(few.endless, BINARY.asked[0], 20, CPU))
    assert other_worlds.ROOMS.tiny().renders == 0


class Draws:
    """A model that draws white, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[torch.Tensor] = []

    def images(self, condition: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        self.told.append(condition)
        return torch.ones(len(condition), 3, 28, 28)


class Blackens:
    """A view that loses everything."""

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return image

    def back(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x)


@pytest.mark.parametrize("forgets", [False, True])
def test_models_renders_and_views_are_read_apart(monkeypatch: pytest.MonkeyPatch, forgets: bool):
    seen: list[torch.Tensor] = []

    class Read:
        """Names everything the same, and sees the mean colour."""

        def __call__(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(images)
            return torch.zeros(len(images), 3).long()

        def features(self, images: torch.Tensor) -> torch.Tensor:
            return images.mean(dim=(2, 3))

    monkeypatch.setattr(zoo, "probe", lambda *asked: Read())
    variant = "labels_dropout_when_sampling" if forgets else "labels_dropout"
    experiment = replace(getattr(conditioning, variant), view=Blackens())
    drawn = Draws()
    trained = Trained(experiment, lambda x, sigma, condition: x, CPU)
    monkeypatch.setattr(Trained, "images", lambda self, *asked: drawn.images(*asked))
    ask = replace(experiment.asks[0], samples=8, linear=None, renders=0)
    found = ask(trained, torch.Generator().manual_seed(0)).measurements
    assert not any("linear" in name or "nearest" in name or "render" in name for name in found)
    model, true, through = seen
    assert (model == 1).all()
    assert (through == 0).all()
    assert 0 < true.mean() < 1
    # All factors zero is what was read: one composition of eight is right.
    assert found["accuracy@circle-large-red"].value == 1
    assert found["accuracy_view@level2"].value == 0
    # Level 2 is the last composition: its mean colours, from white, and from black.
    colours = true[-8:].mean(dim=(2, 3)).double()
    spread = colours.var(dim=0).sum().item()
    assert found["kernel_distance@level1"].n == 3 * 16
    for name, grey in (("frechet_distance", 1.0), ("frechet_distance_view", 0.0)):
        away = (colours.mean(dim=0) - grey).square().sum().item() + spread
        assert found[f"{name}@level2"].value == pytest.approx(away, rel=1e-4)
    assert found["kernel_distance_view@level2"].value > found["kernel_distance@level2"].value
    assert (drawn.told[0][..., -1] == 0).any() == forgets
