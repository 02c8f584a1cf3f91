"""Clouds of points in the plane: they follow their law, and training finds its exact denoiser."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from recombine import run
from recombine.figures.toy import draw
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.results import Origin, Results
from recombine.results.findings import rows
from recombine.results.query import arrays, table
from recombine.studies.toy import CENTRES, STUDY, WIDTHS, Clouds, RedGreen

CPU = torch.device("cpu")


def test_the_clouds_follow_their_law(rng: torch.Generator):
    scenes = Clouds().scenes(torch.arange(1 << 16), seed=0)
    point = RedGreen()(Clouds().image(scenes)).flatten(1)
    law = Clouds().law.sample(torch.zeros(1 << 16, 0), rng).flatten(1)
    torch.testing.assert_close(point.mean(dim=0), law.mean(dim=0).float(), atol=0.01, rtol=0)
    torch.testing.assert_close(point.T.cov(), law.T.cov().float(), atol=0.01, rtol=0)
    for cloud, (centre, width) in enumerate(zip(CENTRES, WIDTHS, strict=True)):
        own = point[scenes.concepts[:, 0, 0] == cloud]
        assert len(own) / len(point) == pytest.approx(1 / 3, abs=0.01)
        torch.testing.assert_close(own.mean(dim=0), torch.tensor(centre), atol=0.01, rtol=0)
        torch.testing.assert_close(own.std(dim=0), torch.tensor(width), atol=0.01, rtol=0)


def test_a_view_of_a_pixel_without_blue_goes_back_and_forth(rng: torch.Generator):
    point = torch.randn(5, 2, 1, 1, generator=rng)
    pixel = RedGreen().back(point)
    assert pixel.shape == (5, 3, 1, 1)
    assert (pixel[:, 2] == 0).all()
    assert torch.equal(RedGreen()(pixel), point)


def test_training_finds_the_exact_denoiser(tmp_path: Path):
    plan = run.planned("toy", STUDY, "denoising", 0, False, {})
    plan = replace(plan, declared=plan.trained.of_steps(1000))
    (kept,) = run.together([plan], run.machine(CPU), [run.Settings(tmp_path)])
    assert kept is not None
    assert kept.measurements["relative_error"].high < 0.05
    found = arrays("toy", kept.path)
    assert {name.rpartition("/")[2] for name in found} == {"place", "exact_score", "learned_score"}


def test_the_figure_has_a_panel_per_run_with_its_error():
    place = torch.cartesian_prod(torch.arange(2.0), torch.arange(2.0)).numpy()
    runs = [Origin("toy", cell, 0, "cpu", STUDY.levels[cell]) for cell in STUDY.cells]
    error = Findings({"relative_error": Measurement(0.0176, 0.017, 0.0181, 9)})
    names = ("place", "exact_score", "learned_score")
    beside = {f"{origin.run}/{name}": place for origin in runs for name in names}
    figure = draw(table(Results(origin, rows(error)) for origin in runs), beside)
    assert [axes.get_title() for axes in figure.axes] == [
        f"network predicts the {what}\nrelative error 0.0176 [0.017, 0.0181]"
        for what in ("image", "noise")
    ]
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["exact score", "learned score"]
    assert len(draw(table([]), {}).axes) == 1
