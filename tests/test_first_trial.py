"""What a new user stumbled over, so that nobody does again."""

from pathlib import Path

import pytest
import torch

import recombine
from recombine.__main__ import main
from recombine.measure.composition import Composition
from recombine.run.model import chosen_measure
from recombine.split import Coverage
from recombine.worlds.shapes2d import Shapes2D

NETWORK = torch.nn.Conv2d(3, 3, 5, padding=2)
ALPHAS = (1 - torch.linspace(1e-4, 0.02, 1000)).cumprod(0)
X = 6 * torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_a_network_without_gradients_has_no_locality():
    cut = torch.no_grad()(lambda x, t: NETWORK(x))
    denoiser = recombine.wrap(cut, predicts="epsilon", schedule=ALPHAS)
    with pytest.raises(ValueError, match="the network's answer has no gradient to x"):
        recombine.locality(denoiser, X, 6.0)


def test_a_network_without_a_condition_gets_zeros_and_wrong_lengths_are_named():
    denoiser = recombine.wrap(lambda x, t: NETWORK(x), predicts="epsilon", schedule=ALPHAS)
    given = recombine.locality(denoiser, X, 6.0, torch.zeros(2, 1)).measurements
    assert recombine.locality(denoiser, X, 6.0).measurements == given
    for sigma, condition in ((torch.ones(3), None), (6.0, torch.zeros(3, 1))):
        with pytest.raises(ValueError, match="are of as many images; got 2, "):
            recombine.locality(denoiser, X, sigma, condition)


def test_fewer_samples_keep_fewer():
    split = Coverage(Shapes2D().factors, 18).split
    declared = (Composition(split, samples=16, kept=4),)
    for samples, kept in ((2, 2), (8, 4)):
        chosen = chosen_measure(declared, "composition", {"samples": samples})
        assert (chosen.samples, chosen.kept) == (samples, kept)
    with pytest.raises(ValueError, match="kept samples are 0 to 2 of each; got 3"):
        chosen_measure(declared, "composition", {"samples": 2, "kept": 3})


def test_a_shipped_model_without_its_prefix_is_recognized():
    with pytest.raises(ValueError, match="'dit' is no study and no folder; did you mean zoo:dit"):
        recombine.load("dit")


def test_a_table_is_found_in_the_folder_and_single_compositions_are_for_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    from recombine.report.picture import pictures

    world = Shapes2D()
    scenes = world.scenes(torch.arange(2), seed=0)
    rows = ["file,shape,size,colour"]
    for number, picture in enumerate(pictures(world.image(scenes))):
        picture.save(tmp_path / f"{number}.png")
        concepts = scenes.concepts[number, 0].tolist()
        named = (f.concepts[c] for f, c in zip(world.factors, concepts, strict=True))
        rows.append(",".join([f"{number}.png", *named]))
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    words = ["score", str(tmp_path), "--labels", "labels.csv", "--world", "shapes2d"]
    assert main(words) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "accuracy 1 [0.158, 1], n = 2"
    assert not any("-" in line.split()[0] for line in printed)
    assert main([*words[:3], "missing.csv", *words[4:]]) == 2
    assert "missing.csv is not there, nor in " in capsys.readouterr().err
