"""Shapes that stand still: which worlds, tokenizers and objectives, and the figure."""

from typing import Any

from recombine.experiments import code_places, declared, jitter, still
from recombine.figures import figures
from recombine.models.blocks import parameters_of
from recombine.objectives.jepa import Jepa
from recombine.report.record import Record
from recombine.report.reference import published


def stub(name: str, curves: dict[str, Any]) -> Record:
    command = f"recombine run {name} --seed 1"
    return Record("?", command, "x", 1, "cpu", 1.0, {}, curves=curves)


def test_models_of_still_shapes_have_their_tokenizers_and_jepa_its_targets():
    for name, each in declared()["still"].items():
        kind = "kl" if name.split("_")[0] in ("kl", "mar", "givt") else "vq"
        whose = "" if name.endswith(("_seen", "_large")) else "_all"
        assert each.view.name == f"tokenizer_{kind}{whose}", name
    assert still.with_jepa.objective.jepa == Jepa((3, 5, 7), weight=0.6, normalised=True)


def test_panels_of_still_shapes_are_in_the_order_of_the_paper():
    order = ["kl", "vq", "maskgit", "mar", "givt", "with_jepa"]
    curves = {f"accuracy@level{level}": [[0, 0.1], [1, 0.2]] for level in range(3)}
    records = [stub(f"still:{name}", curves) for name in sorted(order)]
    panels = [axes for axes in figures()["still"](records).axes if axes.get_title("left")]
    assert [axes.get_title("left") for axes in panels] == order
    # Beside each that the paper has, its curves; on another axis above.
    assert published("with_jepa") is None
    dashed = figures()["still"]([stub("still:maskgit_seen", curves)]).axes
    assert len(dashed) == 2


def test_shapes_stand_still_in_all_that_say_so():
    for name, each in vars(still).items():
        if hasattr(each, "world"):
            assert each.world.place_jitter == (0.25 if "moving" in name else 0.0), name
            assert (parameters_of(each.network) > 4e6) == name.endswith("_large"), name
            assert each.budget == still.TRAINING
    assert (jitter.vq_still.world.place_jitter, jitter.vq_still.world.size_jitter) == (0.0, 0.1)
    assert (jitter.vq_plain.world.place_jitter, jitter.vq_plain.world.size_jitter) == (0.25, 0.0)
    assert jitter.vq_plain.world.colour_jitter == 0.0
    assert code_places.still.world.place_jitter == 0.0
