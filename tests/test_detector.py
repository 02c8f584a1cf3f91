"""The detector: images of any size come in, places in these images come out."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recombine.models.blocks import parameters_of
from recombine.models.detector import UNSURE, Detector, DetectorReader, decoded, prepared
from recombine.reader import Found, Reader
from recombine.scene import Factor

FACTORS = (Factor("shape", ("ball", "box")), Factor("colour", ("red", "green", "blue")))
SMALL = Detector(size=32, widths=(8, 8), blocks=(1, 1))


def naive_peaks(answers: Tensor, most: int) -> list[tuple[float, float, float, int, int]]:
    """Look at every cell of one map in turn: confidence, x, y, shape, colour of each peak."""
    side = answers.shape[-1]
    found = []
    for row in range(side):
        for column in range(side):
            here = float(answers[0, row, column])
            around = [
                (r, c)
                for r in range(max(row - 1, 0), min(row + 2, side))
                for c in range(max(column - 1, 0), min(column + 2, side))
                if (r, c) != (row, column)
            ]
            before = [float(answers[0, r, c]) for r, c in around if (r, c) < (row, column)]
            after = [float(answers[0, r, c]) for r, c in around if (r, c) > (row, column)]
            if all(here > each for each in before) and all(here >= each for each in after):
                cell = answers[:, row, column]
                x = (column + 0.5 + float(cell[1])) / side
                y = (row + 0.5 + float(cell[2])) / side
                shape, colour = int(cell[3:5].argmax()), int(cell[5:8].argmax())
                found.append((float(cell[0].sigmoid()), x, y, shape, colour))
    return sorted(found, key=lambda each: -each[0])[:most]


@pytest.mark.parametrize("whole", [False, True])
def test_peaks_are_those_of_looking_at_every_cell(whole: bool, rng: torch.Generator):
    answers = torch.randn(6, 8, 9, 9, generator=rng)
    # Whole numbers tie often; no two peaks may touch then.
    answers[:, 0] = (2 * answers[:, 0]).round() if whole else answers[:, 0]
    found = decoded(answers, FACTORS, most=5)
    for each in range(6):
        expected = naive_peaks(answers[each], 100)
        count = int(found.count[each])
        assert count == min(5, len(expected))
        sure = [row[0] for row in expected[:count]]
        assert found.confidence[each, :count].tolist() == pytest.approx(sure)
        rows = torch.cat([found.place[each], found.concepts[each]], dim=1)[:count]
        for row in rows:
            assert any(row.tolist() == pytest.approx(list(other[1:])) for other in expected)
        assert len({tuple(row.tolist()) for row in rows}) == count


def test_a_map_that_is_no_number_shows_nothing():
    found = DetectorReader(lambda image: image.new_full((1, 18, 16, 16), torch.nan), SMALL)
    assert found(torch.zeros(1, 3, 32, 32)).count.tolist() == [0]


def dots(image: Tensor) -> Tensor:
    """Stand in for a network: it is sure of a centre where the square image is bright."""
    bright = torch.nn.functional.avg_pool2d(image.mean(dim=1, keepdim=True), 2)
    side = bright.shape[-1]
    # The dot's own centre of mass within two cells, so that places are finer than cells.
    total = bright.sum(dim=(2, 3), keepdim=True).clamp(min=1e-6)
    line = torch.arange(side) + 0.5
    x = (bright * line).sum(dim=(2, 3), keepdim=True) / total - line
    y = (bright * line[:, None]).sum(dim=(2, 3), keepdim=True) / total - line[:, None]
    concepts = image.new_zeros(len(image), 15, side, side)
    concepts[:, 2] = 1
    within = torch.cat([x.expand_as(bright), y.expand_as(bright)], dim=1)
    return torch.cat([20 * bright - 3, within, concepts], dim=1)


@pytest.mark.parametrize(
    ("width", "height"), [(128, 128), (480, 320), (320, 480), (64, 64), (50, 37), (71, 200)]
)
@pytest.mark.parametrize("place", [(0.5, 0.5), (0.2, 0.7), (0.83, 0.3)])
def test_a_dot_is_found_where_it_was_painted(width: int, height: int, place: tuple[float, float]):
    image = torch.zeros(1, 3, height, width)
    left, top = int(place[0] * width), int(place[1] * height)
    dot = max(2, max(width, height) // 24)
    image[..., top : top + dot, left : left + dot] = 1
    found = DetectorReader(dots, Detector(), threshold=0.2)(image)
    assert found.count.tolist() == [1]
    expected = [(left + dot / 2) / width, (top + dot / 2) / height]
    assert found.place[0, 0].tolist() == pytest.approx(expected, abs=0.4 / min(width, height))
    assert found.concepts[0, 0].tolist() == [2, 0, 0, 0]


def test_the_longer_side_fills_the_square_and_the_border_is_repeated():
    image = torch.rand(1, 3, 64, 128)
    square, frame = prepared(image, 128)
    assert frame == (128, 0, 32, 128, 64)
    assert torch.equal(square[:, :, 32:96], image)
    assert torch.equal(square[:, :, :32], image[:, :, :1].expand(-1, -1, 32, -1))
    assert torch.equal(square[:, :, 96:], image[:, :, -1:].expand(-1, -1, 32, -1))
    tall, _ = prepared(image.transpose(2, 3), 128)
    assert torch.equal(tall, square.transpose(2, 3))


def test_colours_outside_the_range_are_cut_off():
    square, _ = prepared(torch.tensor([-1.0, 2.0, 0.5]).reshape(1, 3, 1, 1), 4)
    assert square[0, :, 0, 0].tolist() == [0, 1, 0.5]


def test_what_is_seen_beyond_the_image_is_no_object_of_it():
    image = torch.zeros(1, 3, 64, 128)
    image[..., 8:12, 60:64] = 1
    assert DetectorReader(dots, Detector())(image).count.tolist() == [1]
    above = DetectorReader(lambda square: dots(square.roll(-20, dims=2)), Detector())
    assert above(image).count.tolist() == [0]


def test_the_sure_come_first_and_the_unsure_are_absent():
    answers = torch.zeros(1, 18, 16, 16)
    answers[:, 0] = -9
    for index, logit in enumerate([0.5, 2.0, -1.0]):
        answers[0, 0, 3 * index, 3 * index] = logit
    reader = DetectorReader(lambda image: answers, SMALL, threshold=0.6, most=4)
    found = reader(torch.zeros(1, 3, 32, 32))
    assert found.present.tolist() == [[True, True, False, False]]
    sure = torch.tensor([2.0, 0.5]).sigmoid()
    assert found.confidence[0, :2].tolist() == pytest.approx(sure.tolist())
    assert found.place.shape == (1, 4, 2)
    low = replace(reader, threshold=0.2)(torch.zeros(1, 3, 32, 32))
    assert low.count.tolist() == [3]


def test_images_are_read_the_same_in_parts(monkeypatch: pytest.MonkeyPatch):
    network, sizes = SMALL.build().eval(), []
    torch.nn.init.normal_(network.outlet.weight)
    network.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    reader = DetectorReader(network, SMALL, threshold=0.0)
    assert isinstance(reader, Reader)
    images = torch.rand(5, 3, 40, 24)
    whole = reader(images)
    monkeypatch.setattr("recombine.models.detector.AT_ONCE", 2)
    cut = reader(images)
    assert sizes == [5, 2, 2, 1]
    assert isinstance(whole, Found)
    for name in ("place", "concepts", "confidence", "present"):
        a, b = getattr(whole, name), getattr(cut, name)
        assert torch.allclose(a.float(), b.float(), atol=1e-5)
    with pytest.raises(ValueError, match="at least 1 image; got none"):
        reader(images[:0])


def test_fine_detail_reaches_the_answers_past_the_coarse_levels():
    network = SMALL.build()
    for name, parameter in network.named_parameters():
        # Nothing comes back from the coarse level, and what starts at zero is heard.
        if name.startswith("grow"):
            torch.nn.init.zeros_(parameter)
        if "outlet" in name:
            torch.nn.init.normal_(parameter)
    one, two = (network(torch.rand(1, 3, 32, 32)).detach() for _ in range(2))
    assert float((one - two).abs().max()) > 0.1


def test_the_detector_is_small_enough_to_ship():
    assert parameters_of(Detector()) <= 1_050_000


def test_before_training_no_cell_is_thought_to_hold_a_centre():
    answers = SMALL.build()(torch.rand(2, 3, 32, 32))
    assert answers.shape == (2, SMALL.channels, SMALL.side, SMALL.side)
    assert torch.equal(answers[:, 0], torch.full((2, 16, 16), UNSURE))


def test_every_answer_depends_on_forty_pixels_around_it():
    network = Detector(widths=(4, 4, 4, 4)).build()
    for name, parameter in network.named_parameters():
        # What starts at zero would hear nothing.
        if "second" in name or "outlet" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    image = torch.rand(1, 3, 128, 128, requires_grad=True)
    network(image)[0, :, 32, 32].sum().backward()
    heard = image.grad.abs().sum(dim=(0, 1)) > 0
    assert heard[44:85, 44:85].all()


def test_answers_stay_in_full_precision_inside_autocast():
    network = SMALL.build()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert network(torch.rand(1, 3, 32, 32)).dtype == torch.float32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 100}, "side of 100 pixels cannot be shrunk 16-fold"),
        ({"widths": (8, 8)}, "each level has a width and blocks"),
        ({"widths": (8, 8, 0, 8)}, r"got \(8, 8, 0, 8\)"),
        ({"blocks": (1, 1, 1, 0)}, r"got .* and \(1, 1, 1, 0\)"),
        ({"size": 0}, "size is at least 1"),
    ],
)
def test_a_detector_that_cannot_be_built_is_refused(changes: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        replace(Detector(), **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threshold": 1.5}, r"threshold lies in \[0, 1\]; got 1.5"),
        ({"threshold": float("nan")}, "got nan"),
        ({"most": 0}, "got 0"),
    ],
)
def test_a_reader_that_makes_no_sense_is_refused(changes: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        replace(DetectorReader(dots), **changes)


def test_a_declared_detector_makes_its_reader():
    declared = Detector(32, (8, 16), (1, 1))
    network = declared.build()
    assert declared.object_reader(network) == DetectorReader(network, declared)
    assert declared.object_reader(network, threshold=0.1).threshold == 0.1
