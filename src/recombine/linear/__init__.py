"""The linear sandbox: in what order concepts are learned, in closed form and by the thousand.

sim (the task) -> symmetric (two layers) | deep -> integrate -> network (SGD) -> analysis ->
curves. It imports nothing else of ours. Yang et al. (2024), arXiv 2410.08309; times are the
paper's, half as fast as gradient flow.
"""
