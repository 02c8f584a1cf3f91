"""The U-Net of diffusers behind the interface of ours, and ours of the same size."""

from importlib.util import find_spec

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from recombine.models.entry import Vector
from recombine.models.unet import UNet

NUMBERS = 4
"""Numbers in the condition of either."""
# 11.8 M weights and 14.2 GFLOP an image, against 12.6 M and 12.8 of the peer: ours does more.
OURS = UNet(3, 64, Vector(NUMBERS), width=128, multipliers=(1, 1, 1, 2), attention=(16, 8), patch=1)
PEER_WIDTHS = (64, 128, 160, 160)


class Peer(nn.Module):
    """diffusers' UNet2DModel at 64 px, attention at 16 and 8 px; it ignores the condition."""

    def __init__(self) -> None:
        super().__init__()
        from diffusers.models.unets.unet_2d import UNet2DModel

        plain, attentive = ("DownBlock2D",) * 2, ("AttnDownBlock2D",) * 2
        self.network = UNet2DModel(
            sample_size=64,
            block_out_channels=PEER_WIDTHS,
            layers_per_block=2,
            down_block_types=plain + attentive,
            up_block_types=("AttnUpBlock2D",) * 2 + ("UpBlock2D",) * 2,
            attention_head_dim=32,
        )

    def forward(
        self,
        x: Float[Tensor, "batch channel height width"],
        clock: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *condition"],
    ) -> Float[Tensor, "batch channel height width"]:
        del condition
        return self.network(x, clock).sample


def available() -> bool:
    """Say whether diffusers is installed (extra `sdxl`)."""
    return find_spec("diffusers") is not None
