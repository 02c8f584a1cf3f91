"""What every stream keeps to, whether its pictures are made or read."""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import torch

from dataset_files import write_celeba, write_clevr, write_images, write_shapes3d
from recombine.data import Batch, Source, Stream
from recombine.split import CountSplit, leaks
from recombine.worlds.circles import Circles
from recombine.worlds.clevr import Clevr
from recombine.worlds.files.celeba import CELEBA, CelebA
from recombine.worlds.files.clevr_v1 import ClevrV1
from recombine.worlds.files.images import ImageFolder
from recombine.worlds.files.shapes3d_h5 import Shapes3DFile
from recombine.worlds.shapes2d import Shapes2D

SOURCES: dict[str, Callable[[Path], Source]] = {
    "shapes2d": lambda folder: Shapes2D(),
    "circles": lambda folder: Circles(),
    "clevr": lambda folder: Clevr(size=16, objects=(1, 2)),
    "celeba": lambda folder: CelebA(write_celeba(folder / "celeba"), part="test", size=16),
    "shapes3d_h5": lambda folder: Shapes3DFile(write_shapes3d(folder / "3dshapes.h5")),
    "image_folder": lambda folder: ImageFolder(write_images(folder / "own", 2), size=16),
    "clevr_v1": lambda folder: ClevrV1(write_clevr(folder / "CLEVR_v1.0"), size=16),
}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    return SOURCES[request.param](tmp_path)


def taken(stream: Stream, steps: int) -> list[Batch]:
    return list(islice(stream, steps))


def same(one: Batch, other: Batch) -> bool:
    kept = ("position", "size", "rotation", "colour", "shape", "concepts", "present", "camera")
    return (
        torch.equal(one.image, other.image)
        and torch.equal(one.index, other.index)
        and all(torch.equal(getattr(one.scenes, k), getattr(other.scenes, k)) for k in kept)
    )


def test_batches_are_images_of_the_declared_size_with_their_scenes(source: Source):
    (batch,) = taken(Stream(source, batch=3, seed=0), 1)
    assert batch.image.shape == (3, 3, source.size, source.size)
    assert batch.image.dtype == torch.float32
    assert 0 <= batch.image.min() <= batch.image.max() <= 1
    assert len(batch.scenes) == len(batch) == 3


def test_every_object_is_of_a_composition_of_the_source(source: Source):
    (batch,) = taken(Stream(source, batch=4, seed=0), 1)
    concepts = batch.scenes.concepts[batch.scenes.present]
    assert concepts.shape[1] == len(source.factors)
    for axis, factor in enumerate(source.factors):
        assert ((concepts[:, axis] >= 0) & (concepts[:, axis] < len(factor.concepts))).all()


def test_two_processes_make_the_batches_of_one(source: Source):
    whole = taken(Stream(source, batch=4, seed=3), 2)
    for rank in range(2):
        share = taken(Stream(source, 2, 3, "cpu", rank, 2), 2)
        for one, part in zip(whole, share, strict=True):
            assert torch.equal(part.image, one.image[rank::2])
            assert torch.equal(part.scenes.concepts, one.scenes.concepts[rank::2])
            assert torch.equal(part.index, one.index[rank::2])


def test_a_stream_repeats_itself_and_resumes(source: Source):
    stream = Stream(source, batch=2, seed=1)
    first = taken(stream, 2)
    again = Stream(source, batch=2, seed=1)
    assert all(map(same, first, taken(again, 2)))
    resumed = Stream(source, batch=2, seed=1).resumed(json.loads(json.dumps(stream.state())))
    assert all(map(same, taken(stream, 2), taken(resumed, 2)))


def test_another_seed_gives_another_stream(source: Source):
    one, other = (taken(Stream(source, batch=4, seed=seed), 2) for seed in (1, 2))
    assert not all(torch.equal(a.image, b.image) for a, b in zip(one, other, strict=True))


def test_a_state_is_small_and_names_no_folder(source: Source, tmp_path: Path):
    state = json.dumps(Stream(source, batch=2, seed=1).state())
    assert len(state) < 1000
    assert str(tmp_path) not in state


def test_a_leak_is_noticed_in_a_stream_of_files(tmp_path: Path):
    folder = write_celeba(tmp_path / "celeba")
    assert len(list(islice(leaks(Stream(CelebA(folder, "test"), 2, 0), CELEBA), 8))) == 8
    with pytest.raises(ValueError, match="not smiling"):
        list(islice(leaks(Stream(CelebA(folder, "test", among=()), 2, 0), CELEBA), 8))


def test_objects_are_counted_in_a_stream_of_files(tmp_path: Path):
    folder = write_clevr(tmp_path / "CLEVR_v1.0")
    few = Stream(ClevrV1(folder, size=8, objects=(1, 2)), 2, 0)
    assert len(list(islice(leaks(few, CountSplit(range(1, 3))), 4))) == 4
    with pytest.raises(ValueError, match="2 objects is not among what split count_1 shows"):
        list(islice(leaks(few, CountSplit(range(1, 2))), 4))
