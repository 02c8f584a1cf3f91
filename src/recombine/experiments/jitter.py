"""Does it matter how much pictures of one composition vary? MaskGIT learns what stands where.

`still` shapes keep to the middle of the picture, `plain` ones have one size and colour for each
concept; both on tokenizers of every composition, `_seen` on those of what is seen
(docs/decisions/019, 021).

    recombine run jitter:maskgit_still --seed 0          # for a GPU: 8 layers
    recombine run jitter:maskgit_still_small --seed 0    # 10 minutes on one core
"""

from dataclasses import replace

from recombine.experiment import Experiment
from recombine.experiments import jepa, objective, tokenizer
from recombine.objectives.masked import MaskedDiffusion
from recombine.worlds.shapes2d import Shapes2D


def still(experiment: Experiment, question: str) -> Experiment:
    """Return the experiment with shapes that keep to their place."""
    assert isinstance(experiment.world, Shapes2D)
    words = f"{question} from shapes that stand still?"
    return replace(experiment, question=words, world=experiment.world.still)


def plain(experiment: Experiment, question: str) -> Experiment:
    """Return the experiment with shapes of one size and colour for each concept."""
    assert isinstance(experiment.world, Shapes2D)
    world = replace(experiment.world, size_jitter=0.0, colour_jitter=0.0)
    return replace(experiment, question=f"{question} from plain sizes and colours?", world=world)


vq_still = still(tokenizer.vq_all_short, "Does a DiT on codes compose")
maskgit_still = still(tokenizer.maskgit_all_short, "Does MaskGIT compose")
vq_plain = plain(tokenizer.vq_all_short, "Does a DiT on codes compose")
maskgit_plain = plain(tokenizer.maskgit_all_short, "Does MaskGIT compose")
vq_still_small = still(tokenizer.vq_all_small, "Does a small DiT on codes compose")
maskgit_still_small = still(tokenizer.maskgit_all_small, "Does a small MaskGIT compose")
steered_still_small = still(
    tokenizer.maskgit_steered_all_small, "Does a small MaskGIT told like a DiT compose"
)
kl_still_small = still(tokenizer.kl_all_small, "Does a small DiT on latents compose")
givt_steered_still_small = still(
    tokenizer.givt_steered_all_small, "Does a small GIVT told like a DiT compose"
)
tokens_still_small = still(
    tokenizer.vq_tokens_all_small, "Does a small DiT on codes, told like a MaskGIT, compose"
)
vq_plain_small = plain(tokenizer.vq_all_small, "Does a small DiT on codes compose")
maskgit_plain_small = plain(tokenizer.maskgit_all_small, "Does a small MaskGIT compose")
maskgit_still_seen_small = still(
    objective.maskgit_small, "Does a small MaskGIT on codes of what is seen compose"
)
steered_still_seen_small = still(
    objective.maskgit_steered_small,
    "Does a small MaskGIT told like a DiT, on codes of what is seen, compose",
)
vq_still_seen_small = still(
    objective.dit_vq_small, "Does a small DiT on codes of what is seen compose"
)
kl_still_seen_small = still(
    objective.dit_kl_small, "Does a small DiT on latents of what is seen compose"
)
mar_still_seen_small = still(
    objective.mar_small, "Does a small MAR on latents of what is seen compose"
)
givt_still_seen_small = still(
    objective.givt_small, "Does a small GIVT on latents of what is seen compose"
)
mar_steered_still_seen_small = still(
    objective.mar_steered_small,
    "Does a small MAR told like a DiT, on latents of what is seen, compose",
)
givt_steered_still_seen_small = still(
    objective.givt_steered_small,
    "Does a small GIVT told like a DiT, on latents of what is seen, compose",
)
jepa_still_seen_small = still(
    jepa.small, "Does a small MaskGIT with JEPA on codes of what is seen compose"
)
assert isinstance(objective.mar.objective, MaskedDiffusion)
mar_jepa_still_seen_small = replace(
    mar_steered_still_seen_small,
    question="Does a small MAR told like a DiT, with JEPA, compose from shapes that stand still?",
    objective=jepa.NORMALISED(objective.mar.objective),
    asks=objective.mar.asks,
)
