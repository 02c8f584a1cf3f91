"""Do models that listen locally draw more objects than they have seen?

Bradley 2025 (arXiv 2509.16447), Figure 2 and the scatter of K_max over conditional locality. The
models are those of length_generalization, retrained with the same seeds to the same weights; at
10, 40 and 100 % of training both K_max and locality are measured (half of the runs on record were
measured at the end alone). What is declared of locality is
in measure/locality.py.

    recombine run locality:all     # 3 seeds of each, 2 to 3 minutes a run on one H200
    recombine measure zoo:grid_all --what locality --json
"""

from dataclasses import replace

from recombine.experiment import Experiment
from recombine.experiments import length_generalization as length
from recombine.measure.ablation import Locality


def with_locality(experiment: Experiment, least: float | None = None) -> Experiment:
    """Return the experiment with locality asked beside length, and nothing else changed."""
    return replace(
        experiment,
        question=f"{experiment.question} And how locally does it listen?",
        asks=(*experiment.asks, Locality()),
        headline=("conditional_locality", *experiment.headline),
    )


grid_all = with_locality(length.grid_all, least=0.9)
grid_one = with_locality(length.grid_one)
list_all = with_locality(length.list_all)
list_all_anywhere = with_locality(length.list_all_anywhere)
grid_one_local = with_locality(length.grid_one_local, least=0.9)
list_all_local = with_locality(length.list_all_local, least=0.9)
grid_one_local_unguided = with_locality(length.grid_one_local_unguided)
list_all_local_guided = with_locality(length.list_all_local_guided)
grid_one_global_window = with_locality(length.grid_one_global_window)
grid_one_channels = with_locality(length.grid_one_channels)
grid_all_channels = with_locality(length.grid_all_channels)
grid_all_1 = with_locality(length.grid_all_1)
grid_one_1 = with_locality(length.grid_one_1)
grid_one_local_1 = with_locality(length.grid_one_local_1)
grid_all_5 = with_locality(length.grid_all_5)
grid_one_5 = with_locality(length.grid_one_5)
grid_one_local_5 = with_locality(length.grid_one_local_5)
