"""The panel of the demo on combinations: requested, drawn by shipped models, read and marked."""

import torch

from recombine import load
from recombine.commands.combinations import COUNT, SHOWN, combinations, group, marked, measured
from recombine.measure.renders import fresh
from recombine.report.picture import FOUND, MISSED

CPU = torch.device("cpu")


def test_true_renders_are_right_and_renders_of_others_are_not():
    model = load("zoo:dit")
    which = measured(model).split.test[:4]
    images = torch.cat([fresh(model.training.world, each, 1, CPU) for each in which])
    assert group("true", images, which, model).note == "4 of 4 are what was requested."
    assert group("other", images.flip(0), which, model).note == "0 of 4 are what was requested."


def test_a_bar_below_each_sample_says_whether_it_is_right():
    sheet = marked(torch.ones(3, 3, 28, 28), torch.tensor([True, False, True]), columns=2)
    colours = {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in sheet.getcolors(1 << 16)}
    assert colours == {FOUND, MISSED, "#ffffff"}
    counts = {f"#{r:02x}{g:02x}{b:02x}": n for n, (r, g, b) in sheet.getcolors(1 << 16)}
    assert counts[FOUND] == 2 * counts[MISSED]


def test_the_panel_shows_truth_and_every_model_on_the_same_unseen_combinations():
    section = combinations(0, CPU)
    assert [each.title for each in section.groups][1:] == list(SHOWN.values())
    assert section.groups[0].note == f"{COUNT} of {COUNT} are what was requested."
    right = [int(each.note.split()[0]) for each in section.groups]
    # MaskGIT by cross-entropy draws fewest of them, as in the study.
    assert right[3] < min(right[1:3])
