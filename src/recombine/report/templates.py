"""The tables of README and docs by name; a page says <!-- table: NAME -->."""

from recombine.report.effects import Contrast, Effects
from recombine.report.queries import (
    ByCell,
    Choice,
    Correlations,
    Numbers,
    Paired,
    Papers,
    Query,
    Suffixes,
)

READ = ("exact_count", "precision", "recall")
NAMED = ("shape_accuracy", "colour_accuracy", "size_accuracy", "material_accuracy")
RISES = ("bump_share", "bump_share@5%", "bump_median")
LAWS = ("lcs_residual", "coupling", "leak", "levels_with_lcs", "influence_residual", "cosine")
BENCHES = (
    *("render_cpu", "render_h200", "train_h200", "sample_h200", "local_h200", "local_cpu"),
    *("locality_h200", "linear_h200", "linear_cpu"),
)

# Of one training, the sampling that the study declared is counted: not the same weights twice.
ONCE = ("list_all-local-guided/*",)
# The runs that were made after the question had been put again, with the rule for the answer.
AGAIN = ("*/seed2", "*-channels/*", "*-one/*", "*-one-*", "*-up_to_5*")
CHOICES = {
    "the last of every run": Choice(without=ONCE),
    "without the local networks": Choice(without=("*-local*",)),
    "only runs made after the question was put again": Choice(AGAIN, ONCE),
    "all milestones of every run": Choice(without=ONCE, milestones=True),
}

# The contrasts of decision 031, declared before the first run.
COVERAGE_AXES = ("model", "auxiliary", "coverage", "world", "position", "volume", "size")
OF_MODELS = tuple(
    Contrast(
        "model", high, "maskgit", {"size": (size,), "position": (position,), "auxiliary": ("none",)}
    )
    for size, position in (("small", "fixed"), ("middle", "random"))
    for high in ("dit", "maskgit_squared")
)
FACTORIAL_AXES = ("corruption", "loss", "conditioning", "auxiliary", "decoding")
MASKS = {"corruption": ("masks",), "decoding": ("usual",)}
PLAIN = {"decoding": ("usual",), "auxiliary": ("none",)}
_LOSS = ("loss", "squared", "cross_entropy")
OF_FACTORS = (
    Contrast(*_LOSS, MASKS),
    Contrast(*_LOSS, {**PLAIN, "corruption": ("noise",)}),
    Contrast("loss", "squared", "cross_entropy_of_vectors", MASKS),
    Contrast("corruption", "noise", "masks", {**PLAIN, "loss": ("squared", "cross_entropy")}),
    Contrast("conditioning", "adaln", "tokens", {"decoding": ("usual",)}),
    Contrast("auxiliary", "jepa", "none", {"decoding": ("usual",)}),
    Contrast(*_LOSS, MASKS, by=("conditioning", "tokens", "adaln")),
    Contrast(*_LOSS, PLAIN, by=("corruption", "masks", "noise")),
    Contrast(*_LOSS, MASKS, by=("auxiliary", "none", "jepa")),
    *(
        Contrast(*_LOSS, {"corruption": ("masks",), "decoding": (way,), "auxiliary": ("none",)})
        for way in ("greedy", "cooler", "expected", "steps18", "steps49")
    ),
)


TEMPLATES: dict[str, Query] = {
    "length": ByCell(
        ("length",),
        ("k_max", "success@3", "success@6", "success@9", "success@12", "hit_rate@12"),
        axes=("objects",),
        each=("k_max",),
        compared=("k_max",),
    ),
    "locality": ByCell(
        ("length",),
        (
            *("conditional_locality", "conditional_locality_moved", "leak", "pixel_locality"),
            "k_max",
        ),
        each=("k_max",),
        needed="conditional_locality",
    ),
    "locality_correlation": Correlations(
        ("length",), ("conditional_locality", "beyond_objects"), CHOICES
    ),
    "guidance": ByCell(("guidance",), ("both_hit", "hit", "colours")),
    "laws": Suffixes(("laws",), LAWS, what="law"),
    "swing_by": ByCell(
        ("swing_by:two_concepts*",), (*RISES, "training_monotone_share", "descents")
    ),
    "swing_by_figures": ByCell(
        ("swing_by:figure*",),
        ("bump_share", "descents", "weak_unlearned_share", "lost_share", "authors_descents"),
    ),
    "swing_by_networks": ByCell(("swing_by_networks",), ("in_order_share", *RISES)),
    "phase_diagram": Numbers(("phase_diagram",), ("bump_share*",)),
    "concept_space": ByCell(
        ("concept_space:0.*",),
        (
            *("concept_mse_rise", "concept_mse", "blue_lowest", "colour_seen_first"),
            *("slow_down_explained", "slow_down_explained_by_log"),
        ),
        compared=("concept_mse_rise",),
    ),
    "toy": Numbers(("toy:denoising",), ("relative_error*",)),
    "circles": Numbers(("circles:all_seen",)),
    "readers": ByCell(("readers:detector", "fidelity:detector"), (*READ, *NAMED)),
    "shapes2d_readers": Paired(
        ("readers:probe",),
        (*("accuracy", "accuracy_noisy", "accuracy_blurred"), "rejected@*"),
        mark="_fit",
        heads=("fit", "probe"),
    ),
    "tokenizers": ByCell(
        ("tokenizers",),
        ("psnr", "read", "read_least", "read_least_fixed", "codes_used", "latent_spread"),
    ),
    "coverage": ByCell(
        ("coverage",),
        (
            *("accuracy@test", "accuracy@seen", "valid@test", "all_right@test"),
            *("accuracy_strict@test", "accuracy_lenient@test", "accuracy_view@test"),
        ),
        axes=("coverage", "position", "size"),
    ),
    "coverage_levels": ByCell(
        ("coverage",),
        (
            *("accuracy@level1", "accuracy@level2"),
            *("shape_right@test", "size_right@test", "colour_right@test"),
            *("size_spread@test", "colour_spread@test"),
        ),
    ),
    **{
        f"coverage_effects{limits}": Effects(
            ("coverage",), f"accuracy{limits}@test", COVERAGE_AXES, OF_MODELS
        )
        for limits in ("", "_strict", "_lenient")
    },
    **{
        f"factorial_effects{limits}": Effects(
            ("factorial",),
            f"accuracy{limits}@test",
            FACTORIAL_AXES,
            OF_FACTORS,
            trained=("accuracy@seen", 0.95),
        )
        for limits in ("", "_strict", "_lenient")
    },
    "papers": Papers(),
    "fidelity": Numbers(("fidelity:renderer",)),
    **{f"speed_{name}": Numbers((f"bench:{name}",)) for name in BENCHES},
}
