"""Which codes were seen where, and what can be drawn with them alone."""

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks import code_places_sheet
from PIL import Image

from recombine.experiments import code_places, declared
from recombine.experiments.code_places import CodePlaces
from recombine.experiments.probe import fresh
from recombine.measure.tokenizing import nearest_seen, seen_at, unseen_share
from recombine.split import BINARY

# Two images of 1 x 2 places, four codes.
SEEN = seen_at(torch.tensor([[[0, 1]], [[0, 2]]]), 4)


def test_what_was_seen_is_told_for_each_place():
    assert SEEN.tolist() == [[[True, False, False, False], [False, True, True, False]]]


def test_the_share_of_what_was_never_seen_there_is_by_hand():
    ids = torch.tensor([[[0, 1]], [[1, 0]], [[0, 0]]])
    found = unseen_share(ids, SEEN)
    assert found.value == pytest.approx((0 + 1 + 0.5) / 3)
    assert found.n == len(ids)
    # Code 1 was seen, but not at the first place.
    anywhere = SEEN.any(dim=(0, 1)).expand_as(SEEN)
    assert unseen_share(ids, anywhere).value == 0
    assert unseen_share(torch.tensor([[[3, 3]], [[3, 0]]]), anywhere).value == 0.75


def test_what_was_never_seen_becomes_the_nearest_that_was_and_the_rest_stays():
    vectors = torch.tensor([[0.0], [1.0], [5.0], [4.0]])
    ids = torch.tensor([[[3, 3]], [[0, 1]], [[0, 0]]])
    # At the first place there is code 0 alone; at the second 5 is nearer to 4 than 1 is.
    assert nearest_seen(ids, SEEN, vectors).tolist() == [[[0, 2]], [[0, 1]], [[0, 1]]]


def test_it_is_the_nearest_by_looking_at_all():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(16, 3, generator=generator, dtype=torch.float64)
    seen = seen_at(torch.randint(0, 16, (5, 4, 4), generator=generator), 16)
    ids = torch.randint(0, 16, (6, 4, 4), generator=generator)
    found = nearest_seen(ids, seen, vectors)
    for each, row, column in torch.cartesian_prod(*map(torch.arange, ids.shape)).tolist():
        there = seen[row, column].nonzero()[:, 0].tolist()
        wanted = int(ids[each, row, column])
        far = {code: float((vectors[code] - vectors[wanted]).norm()) for code in there}
        assert int(found[each, row, column]) == min(far, key=far.__getitem__)
    assert unseen_share(found, seen).value == 0


def test_a_place_that_has_seen_nothing_is_refused():
    nothing = torch.zeros(1, 2, 4, dtype=torch.bool)
    with pytest.raises(ValueError, match="a place has none"):
        nearest_seen(torch.zeros(1, 1, 2, dtype=torch.int64), nothing, torch.zeros(4, 1))


def test_what_is_read_is_not_among_what_is_seen():
    """Else nothing of level 0 would ever be new."""
    ask = CodePlaces("?", renders=32, samples=16)
    which = BINARY.seen[0]
    read, seen = (
        ask.ids(which, 16, torch.device("cpu")),
        ask.ids(which, 32, torch.device("cpu"), 16),
    )
    assert (len(read), len(seen)) == (16, 32)
    images = fresh(ask.world, which, 48, torch.device("cpu"))
    assert torch.equal(torch.cat([read, seen]), ask.view(images))
    found = ask(torch.Generator().manual_seed(0), lambda *_: None).measurements
    assert found["unseen_place@level0"].value > 0


def test_seen_codes_at_seen_places_suffice_with_a_tokenizer_of_everything_only():
    """The finding, from few renders: with the other tokenizer, blobs where shapes stand still."""
    few = {"renders": 1_024, "samples": 32}
    found = {
        name: CodePlaces("?", world=each.world, view=each.view, **few)(
            torch.Generator().manual_seed(0), lambda *_: None
        ).measurements
        for name, each in (("all", code_places.still), ("seen", code_places.still_seen))
    }
    assert found["all"]["accuracy_within@level2"].value > 0.9
    assert found["seen"]["accuracy_within@level2"].value < 0.5
    # It is not the tokenizer that loses them, nor a code that was never seen at all.
    assert found["seen"]["accuracy_view@level2"].value > 0.7
    assert found["all"]["unseen_code@level2"].value == 0
    for each in found.values():
        assert 0.3 < each["unseen_place@level2"].value < 0.5
        assert each["accuracy_within@level0"].value > 0.9


def test_the_sheet_shows_each_composition():
    ask = CodePlaces("?", renders=16, samples=8)
    sheet = ask(torch.Generator().manual_seed(0), lambda *_: None).images
    assert list(sheet) == ["-".join(which) for which in BINARY.asked]
    assert {len(images) for images in sheet.values()} == {8}
    blue = {name: float((images[:, 2] - images[:, 0]).mean()) for name, images in sheet.items()}
    assert all((value > 0) == ("blue" in name) for name, value in blue.items())


def test_where_all_images_are_alike_there_is_no_interval():
    alike = unseen_share(torch.zeros(3, 1, 2, dtype=torch.int64), SEEN)
    assert (alike.value, alike.low, alike.high) == (0.5, None, None)
    some = unseen_share(torch.tensor([[[0, 1]], [[1, 0]]]), SEEN)
    assert some.low < 0.5 < some.high


def test_the_picture_has_a_panel_per_run_and_new_composition(tmp_path: Path):
    runs, out = tmp_path / "runs", tmp_path / "drawn.png"
    with pytest.raises(SystemExit, match="expected the folder of recombine run code_places:all"):
        code_places_sheet.main(runs, out)
    for name in declared()["code_places"]:
        samples = runs / name / "seed0" / "samples"
        samples.mkdir(parents=True)
        for which in BINARY.asked:
            Image.new("RGB", (240, 30), "blue").save(samples / f"{'-'.join(which)}.png")
    code_places_sheet.main(runs, out)
    pixels = np.asarray(Image.open(out).convert("RGB"))
    assert (pixels == [0, 0, 255]).all(axis=-1).mean() > 0.3
    with pytest.raises(SystemExit, match="expected a folder to write"):
        code_places_sheet.main(runs, tmp_path / "no" / "drawn.png")


def test_renders_come_in_whole_batches():
    with pytest.raises(ValueError, match="got 100 of 64"):
        CodePlaces("?", renders=100, samples=64)
