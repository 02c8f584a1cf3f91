"""An alarm is no use unless it is said: what has collapsed, and what to do about it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from recombine import run as runner
from recombine.__main__ import main
from recombine.commands.run import announce, seeded
from recombine.experiment import Experiment, Findings, Trained, joined
from recombine.experiments import jepa, objective
from recombine.experiments.objective import OF_EACH, Composition, means, targets_spread
from recombine.experiments.probe import fresh
from recombine.measurement import Measurement
from recombine.objectives.jepa import WithJepa, target_spread
from recombine.report.record import Record
from recombine.split import BINARY

CPU = torch.device("cpu")
SAID = "targets collapsed: variance 0 per channel, rank 0.0 of 64"


def trained(experiment: Experiment, weight: float | None = None) -> Trained:
    """A fresh network; with a `weight`, all of its weights are that."""
    torch.manual_seed(0)
    denoiser = experiment.denoiser().eval()
    if weight is not None:
        for parameter in denoiser.parameters():
            nn.init.constant_(parameter, weight)
    return Trained(experiment, denoiser, CPU)


def test_targets_of_a_fresh_network_differ_and_raise_none():
    found = targets_spread(Composition(), trained(jepa.small))
    assert found.measurements["target_variance"].value > 1e-3
    assert found.measurements["target_rank"].value > 2
    assert found.measurements["target_rank"].n == 4 * OF_EACH
    assert found.curves == {}


@pytest.mark.parametrize("variant", [jepa.small, jepa.small_plain])
def test_what_is_measured_is_the_least_of_the_layers(variant: Experiment):
    """The twin: ask the network itself, picture by picture, and norm its states by hand."""
    model = trained(variant)
    found = targets_spread(Composition(), model).measurements
    objective_ = variant.objective
    assert isinstance(objective_, WithJepa)
    states: dict[int, list[torch.Tensor]] = {layer: [] for layer in objective_.jepa.layers}
    for which in BINARY.at(0):
        told = variant.conditioner.encode(means(variant.world, which, OF_EACH, CPU))
        ids = variant.view(fresh(variant.world, which, OF_EACH, CPU))
        nothing = torch.zeros(len(ids), 7, 7, dtype=torch.bool)
        with torch.no_grad():
            said = model.denoiser(ids, nothing, told).states
        for layer, rows in states.items():
            rows.append(said[layer])
    spreads = []
    for rows in states.values():
        state = torch.cat(rows)
        if objective_.jepa.normalised:
            away = state - state.mean(-1, keepdim=True)
            state = away / (away.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        spreads.append(target_spread(state))
    assert found["target_variance"].value == pytest.approx(min(s.variance for s in spreads))
    assert found["target_rank"].value == pytest.approx(min(s.rank for s in spreads), rel=1e-4)


def test_targets_that_have_collapsed_raise_an_alarm_for_each_layer():
    found = targets_spread(Composition(), trained(jepa.small_plain, weight=0.0))
    assert found.measurements["target_variance"].value == 0
    assert [name for name, _ in found.curves["alarms"]] == ["layer 1", "layer 2", "layer 3"]
    for name, text in found.curves["alarms"]:
        assert text.startswith(f"{name}: {SAID}")
        assert "lower the weight of JEPA" in text


def test_a_dit_with_jepa_is_asked_as_well():
    """The twin: its own states of images at the lowest noise, nothing normed."""
    model = trained(jepa.dit)
    # A fresh DiT is the identity: what it is told would not be heard.
    for name, parameter in model.denoiser.named_parameters():
        if "modulation" in name:
            nn.init.normal_(parameter, std=0.1)
    found = targets_spread(Composition(), model).measurements
    seen = torch.cat(
        [jepa.dit.view(fresh(jepa.dit.world, each, OF_EACH, CPU)) for each in BINARY.at(0)]
    )
    told = [
        jepa.dit.conditioner.encode(means(jepa.dit.world, each, OF_EACH, CPU))
        for each in BINARY.at(0)
    ]
    level = torch.full((len(seen),), 0.002)
    with torch.no_grad():
        _, states = model.denoiser(seen, level, torch.cat(told), True)
    spreads = [target_spread(each) for each in states]
    assert len(spreads) == 3
    assert found["target_variance"].value == pytest.approx(min(s.variance for s in spreads))
    assert found["target_rank"].value == pytest.approx(min(s.rank for s in spreads), rel=1e-4)
    assert "alarms" in targets_spread(Composition(), trained(jepa.dit, weight=0.0)).curves


def test_without_jepa_there_are_no_targets():
    assert targets_spread(Composition(), trained(objective.maskgit_small)) == Findings({})


def test_alarms_of_all_questions_are_kept():
    rows = [Findings({}, {"alarms": [["alarm", text]]}) for text in ("one", "two")]
    assert joined(rows).curves["alarms"] == [["alarm", "one"], ["alarm", "two"]]
    assert "alarms" not in joined([Findings({})]).curves


def test_a_run_says_its_alarm(tmp_path: Path, capfd: pytest.CaptureFixture):
    """A codebook of one tiny step is hardly in use."""
    (plan,) = seeded("autoencoder", "vq", [], True, {"steps": 1})
    record = runner.run(plan, runner.machine(CPU), runner.Settings(tmp_path))
    assert isinstance(record, Record)
    announce(plan, record, tmp_path)
    said = "".join(capfd.readouterr())
    assert "alarm: codebook collapsed" in said
    announce(plan, replace(record, curves={}), tmp_path)
    assert "alarm:" not in "".join(capfd.readouterr())


def test_measure_says_it_in_words_and_in_json(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
):
    number = Measurement(0.5, None, None, 4)
    found = Findings({"target_rank": number}, {"alarms": [["alarm", SAID]]})
    monkeypatch.setattr(runner, "measured", lambda *asked: found)
    for extra in ([], ["--json"]):
        monkeypatch.setattr("sys.argv", ["recombine", "measure", "zoo:maskgit_jepa", *extra])
        main()
        out, err = capfd.readouterr()
        if extra:
            assert json.loads(out)["alarms"] == [SAID]
            assert "undefined" not in json.loads(out)
        else:
            assert f"alarm: {SAID}" in out + err
