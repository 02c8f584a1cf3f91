"""Images made elsewhere: true renders score 1, wrong ones what they deserve, in any order."""

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from recombine import Clevr, CompositionAccuracy, Coverage, Shapes2D, Shapes3D, score
from recombine import __main__ as command_line
from recombine.report.picture import pictures
from recombine.scene import Factor, compositions, concept_rows
from recombine.scoring.labels import prompts, requests_of, table
from recombine.scoring.matching import ABSENT, ANY, factors_right, fulfilled
from recombine.scoring.pictures import opened
from recombine.scoring.reading import SeenObjects
from recombine.scoring.states import Plain

WORLD = Shapes2D()
SPLIT = Coverage(WORLD.factors, 18).split
PARTS = ("accuracy@seen", "accuracy@dev", "accuracy@test")
SMALL = (Factor("shape", ("a", "b")), Factor("colour", ("x", "y", "z")))


@pytest.fixture(scope="module")
def renders() -> tuple[Tensor, Tensor]:
    scenes = WORLD.scenes(torch.arange(6), 11)
    images = torch.stack([(each * 255).round() / 255 for each in WORLD.image(scenes)])
    return images, scenes.concepts[:, 0]


def test_true_renders_score_one_and_so_does_their_ceiling(renders):
    found = score(*renders, WORLD, SPLIT)
    assert found["accuracy"].value == found["accuracy_ceiling"].value == found["valid"].value == 1
    assert found["accuracy"].n == 6
    assert found["shape_right"].value == found["size_right"].value == 1
    assert "count_right" not in found


def test_a_wrong_factor_a_wrong_image_and_an_open_factor_count_as_what_they_are(renders):
    images, labels = renders[0].clone(), renders[1].clone()
    labels[0, 2] = (labels[0, 2] + 1) % 6
    labels[1, :2] = ANY
    images[2:4] = torch.rand(2, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    metric = CompositionAccuracy(WORLD)
    metric.update(images, labels)
    found = metric.measurements(ceiling=False)
    assert found["accuracy"].value == 3 / 6
    assert found["valid"].value == 4 / 6
    assert found["colour_right"].n == 6
    assert found["shape_right"].n == found["size_right"].n == 5
    name = "-".join(f.concepts[i] for f, i in zip(WORLD.factors, labels[0].tolist(), strict=True))
    assert found[f"accuracy@{name}"].value == 0
    assert (found["accuracy"].low, found["accuracy"].high) == pytest.approx(
        (0.118, 0.882), abs=1e-3
    )


def test_groups_are_those_of_the_split_and_levels_those_of_its_test_compositions():
    every = compositions(WORLD.factors)
    rows = concept_rows(WORLD.factors, every)
    metric = CompositionAccuracy(WORLD, SPLIT)
    there = torch.ones(96, 1, dtype=torch.bool)
    valid = torch.tensor([which not in SPLIT.at(2) for which in every])
    metric._judge(rows[:, None], SeenObjects(rows[:, None], there, valid))
    found = metric.measurements(ceiling=False)
    assert found["accuracy@seen"].n == found["accuracy@level0"].n == 18
    assert found["accuracy@dev"].n == 12
    assert found["accuracy@test"].n == 24
    for level in (1, 2):
        assert found[f"accuracy@level{level}"].n == sum(w in SPLIT.test for w in SPLIT.at(level))
    assert (found["accuracy@level1"].value, found["accuracy@level2"].value) == (1, 0)
    assert found["all_right@level2"].value == 1


def test_the_score_is_the_same_to_the_last_digit_in_any_batches_and_order(renders):
    images, labels = renders[0].clone(), renders[1]
    images[3] = images[4]
    images[5] += 0.06 * torch.randn(3, 28, 28, generator=torch.Generator().manual_seed(1))
    once = CompositionAccuracy(WORLD, SPLIT)
    once.update(images, labels)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(2))
    for sizes in ((1, 2, 3),):
        parts = CompositionAccuracy(WORLD, SPLIT)
        for mine in order.split(sizes):
            parts.update(images[mine], labels[mine])
        assert parts.measurements(False) == once.measurements(False)
        assert {k: v.item() for k, v in parts.compute().items()} == {
            k: v.item() for k, v in once.compute().items()
        }
    once.reset()
    with pytest.raises(ValueError, match="a score needs at least 1 image"):
        once.compute()


def test_clevr_is_scored_by_its_objects_one_image_at_a_time():
    world = Clevr(size=64, objects=(1, 3), margin=False)
    scenes = world.scenes(torch.arange(6), 5)
    images = world.image(scenes)
    labels = torch.where(scenes.present[..., None], scenes.concepts, ABSENT)
    found = score(images, labels, world)
    assert found["accuracy"].value == found["count_right"].value == found["valid"].value == 1
    labels[0, 0, 1] = (labels[0, 0, 1] + 1) % 8
    several = int(scenes.present.sum(dim=1).argmax())
    labels[several, 2] = ABSENT
    wrong = score(images, labels, world)
    assert wrong["accuracy"].value == pytest.approx(1 - len({0, several}) / 6)
    assert wrong["count_right"].value == pytest.approx(5 / 6)
    alone = CompositionAccuracy(world)
    for number in (5, 2, 0, 1, 4, 3):
        alone.update(images[number : number + 1], labels[number : number + 1])
    assert alone.measurements() == wrong
    noise = torch.rand(6, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    assert score(noise, labels, world)["valid"].value == 0


def fits_in_some_order(request: list[list[int]], seen: list[list[int]]) -> bool:
    return any(
        all(
            wanted in (ANY, there)
            for one, at in zip(request, order, strict=True)
            for wanted, there in zip(one, seen[at], strict=True)
        )
        for order in permutations(range(len(request)))
    )


def test_requests_are_matched_as_a_search_over_all_orders_does(rng: torch.Generator):
    seen_both = set()
    for _ in range(100):
        count = int(torch.randint(1, 4, (), generator=rng))
        request = torch.randint(-1, 2, (count, 2), generator=rng)
        seen = torch.randint(0, 2, (count, 2), generator=rng)
        naive = fits_in_some_order(request.tolist(), seen.tolist())
        assert fulfilled(request, seen) == naive
        seen_both.add(naive)
        assert not naive or 0 not in factors_right(request, seen)
    assert seen_both == {True, False}
    one, two = torch.tensor([[0, 1]]), torch.tensor([[0, 1], [0, 1]])
    assert not fulfilled(one, two)
    assert not fulfilled(two, one)
    assert factors_right(two, torch.tensor([[0, 1], [1, 1]])) == [0, 1]
    assert factors_right(torch.tensor([[ANY, 1]]), one) == [-1, 1]


def test_labels_are_numbers_or_words():
    expected = torch.tensor([[[1, 2]], [[0, ANY]]])
    assert torch.equal(requests_of([("b", "z"), {"shape": "a"}], SMALL, 1), expected)
    assert torch.equal(requests_of(expected, SMALL, 1), expected)
    assert torch.equal(requests_of(expected[:, 0], SMALL, 1), expected)
    several = requests_of([[{"colour": "y"}, ("a", "x")]], SMALL, 3)
    assert several.tolist() == [[[ANY, 1], [0, 0], [ABSENT, ABSENT]]]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([("a", "q")], "label 0: colour is one of x, y, z; got 'q'"),
        ([("a", "x"), ("a",)], "label 1: a composition is of shape, colour; got a"),
        ([{"shade": "a"}], "label 0: 'shade' is not one of shape, colour"),
        ([[("a", "x"), ("a", "x")]], "label 0: an image shows 1 to 1 objects; got 2"),
        (torch.tensor([[0, 3]]), "label 0: colour is a number from 0 to 2"),
        (torch.tensor([[0, 1, 2]]), r"got \(1, 1, 3\)"),
        (torch.full((1, 2), ABSENT), "label 0: an image shows 1 to 1 objects; got 0"),
    ],
)
def test_labels_that_cannot_be_are_named(labels, message: str):
    with pytest.raises(ValueError, match=message):
        requests_of(labels, SMALL, 1)


def test_what_cannot_be_scored_is_refused(renders):
    with pytest.raises(ValueError, match="of shapes2d and of clevr can be scored; got shapes3d"):
        score(*renders, Shapes3D())
    with pytest.raises(ValueError, match="6 images have as many labels; got 2"):
        score(renders[0], renders[1][:2], WORLD)
    with pytest.raises(ValueError, match="is not of the concepts of clevr: shape, colour"):
        CompositionAccuracy(Clevr(), SPLIT)


def test_a_metric_of_torchmetrics_has_the_same_numbers(renders):
    torchmetrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    metric = CompositionAccuracy(WORLD, SPLIT)
    assert isinstance(metric, torchmetrics.Metric)
    metric.update(*renders)
    assert metric.compute()["accuracy"] == 1
    assert metric.measurements() == score(*renders, WORLD, SPLIT)


def test_without_it_lists_are_joined_and_forgotten():
    plain = Plain()
    plain.add_state("seen", [], "cat")
    plain.seen.append(1)
    assert plain.seen == [1]
    plain.reset()
    assert plain.seen == []


# Tables and prompts


def test_a_table_and_prompts_say_what_each_file_shows(tmp_path: Path):
    csv = tmp_path / "labels.csv"
    csv.write_text("file,shape,color\na.png,a,x\nb.png,,z\na.png,b,\n")
    assert table(csv, SMALL) == {
        "a.png": [{"shape": "a", "colour": "x"}, {"shape": "b", "colour": ""}],
        "b.png": [{"shape": "", "colour": "z"}],
    }
    entries = [
        {"prompt": "this A, coloured X!", "files": ["0.png", "1.png"]},
        {"include": [{"class": "b", "color": "z", "count": 2}, {"class": "a"}], "files": ["2.png"]},
    ]
    expected = {
        "0.png": [{"shape": "a", "colour": "x"}],
        "1.png": [{"shape": "a", "colour": "x"}],
        "2.png": [{"shape": "b", "colour": "z"}] * 2 + [{"shape": "a"}],
    }
    (tmp_path / "p.json").write_text(json.dumps(entries))
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, entries)))
    assert prompts(tmp_path / "p.json", SMALL) == expected
    assert prompts(tmp_path / "p.jsonl", SMALL) == expected


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("l.csv", "", "begins with the names of its columns: file, shape"),
        ("l.csv", "file,shape\n", "labels no image"),
        ("l.csv", "file,shape\na.png,circle,red\n", "line 2 has 3 cells; expected 2"),
        ("l.csv", "file,shape\na.png,cirle\n", "line 2: shape is one of circle"),
        ("l.csv", "file,shape,kind\na.png,circle,1\n", "line 2: 'kind' is not one of"),
        ("l.csv", "file,shape\ngone.png,circle\n", "gone.png is not there"),
        ("l.csv", "file,shape\n../a.png,circle\n", "../a.png lies outside"),
        ("l.csv", "file,shape\nl.csv,circle\n", "is not a whole image"),
        ("l.csv", "file,shape\nsmall.png,circle\n", "small.png has 9x9 pixels; the reader of"),
        ("l.csv", "file,shape\ngrey.png,circle\n", "grey.png is in mode L; expected RGB"),
        ("p.json", "{}", "is a list of objects with `files`"),
        ("p.json", "[{}]", "entry 0 has no list of names called `files`"),
        ("p.json", '[{"files": ["a.png"], "prompt": "a house"}]', "no concept of the world"),
        ("p.json", '[{"files": ["a.png"], "prompt": "red or blue"}]', "names red and blue"),
        ("p.json", '[{"files": ["a.png"], "include": [1]}]', "`include` is a list of objects"),
        ("p.json", "[", "is not whole, valid JSON"),
    ],
)
def test_what_a_table_gets_wrong_is_one_line(
    name: str, text: str, complaint: str, refused: Callable[..., str], tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path(f"in/{name}").write_text(text)
    for file, mode, side in (("a.png", "RGB", 28), ("small.png", "RGB", 9), ("grey.png", "L", 28)):
        Image.new(mode, (side, side), "white").save(f"in/{file}")
    assert complaint in refused("score", "in", "--labels", f"in/{name}", "--world", "shapes2d")


def test_a_folder_is_scored_from_the_command_line(renders, tmp_path: Path, capsys):
    lines = ["file,shape,size,colour"]
    for number, (picture, row) in enumerate(
        zip(pictures(renders[0]), renders[1].tolist(), strict=True)
    ):
        picture.save(tmp_path / f"{number}.png")
        words = [f.concepts[i] for f, i in zip(WORLD.factors, row, strict=True)]
        lines.append(",".join([f"{number}.png", *words]))
    Image.fromarray(np.zeros((28, 28, 3), np.uint8)).save(tmp_path / "black.png")
    (tmp_path / "l.csv").write_text("\n".join([*lines, "black.png,circle,large,red"]))
    words = ["score", tmp_path, "--labels", tmp_path / "l.csv", "--world", "shapes2d"]
    more = ["--split", "coverage:18", "--json"]
    assert command_line.main([*map(str, words), *more]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["subject"] == str(tmp_path)
    assert printed["unknown"] == [str(tmp_path / "black.png")]
    assert printed["measurements"]["accuracy"]["value"] == pytest.approx(6 / 7)
    assert sum(each["n"] for name, each in printed["measurements"].items() if name in PARTS) <= 7
    files = [tmp_path / f"{number}.png" for number in range(6)]
    assert torch.equal(opened(files, WORLD).float() / 255, renders[0])
