"""Our CLEVR beside Blender's, on the very same scenes."""

import pytest
import torch
from benchmarks.fidelity import compared, mask_overlap, side_by_side, ssim


@pytest.fixture(scope="module")
def fixed() -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    return compared("fixed")


@pytest.mark.parametrize(("name", "least"), [("mask_iou", 0.98), ("ssim", 0.98), ("psnr", 39.0)])
def test_fixed_scenes_look_like_blenders(fixed, name: str, least: float):
    assert fixed[0][name].mean() >= least


def test_jittered_scenes_are_seen_from_the_recovered_camera():
    measured, _, _ = compared("jittered")
    assert measured["mask_iou"].mean() >= 0.98
    assert measured["psnr"].mean() >= 32


def test_the_comparison_shows_pairs(fixed):
    _, ours, theirs = fixed
    assert side_by_side(ours, theirs).size == (6 * 256, 4 * 256)


def test_ssim_agrees_with_a_loop_over_windows(rng: torch.Generator):
    a, b = torch.rand(2, 1, 1, 13, 13, generator=rng, dtype=torch.float64)
    bell = torch.exp(-((torch.arange(11.0, dtype=torch.float64) - 5) ** 2) / (2 * 1.5**2))
    weights = bell[:, None] * bell / bell.sum() ** 2
    values = []
    for row in range(3):
        for column in range(3):
            x, y = (i[0, 0, row : row + 11, column : column + 11] for i in (a, b))
            mx, my = (weights * x).sum(), (weights * y).sum()
            vx, vy = (weights * (x - mx) ** 2).sum(), (weights * (y - my) ** 2).sum()
            cov = (weights * (x - mx) * (y - my)).sum()
            light = (2 * mx * my + 1e-4) / (mx**2 + my**2 + 1e-4)
            values.append(light * (2 * cov + 9e-4) / (vx + vy + 9e-4))
    assert ssim(a, b).item() == pytest.approx(torch.stack(values).mean().item(), rel=1e-9)


def test_overlap_leaves_out_background_and_specks():
    reference = torch.zeros(1, 10, 10, dtype=torch.int64)
    reference[0, :5, :5], reference[0, 9, 9] = 1, 2
    shifted = torch.zeros_like(reference)
    shifted[0, 1:6, :5] = 1
    assert mask_overlap(shifted, reference).tolist() == pytest.approx([20 / 30])
