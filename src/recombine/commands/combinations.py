"""The part of the demo's page on combinations: three models that have seen 18 of 96."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from PIL import Image, ImageDraw
from torch import Tensor

from recombine import zoo
from recombine.commands.console import say
from recombine.commands.measure import chosen_model
from recombine.measure.composition import Composition, conditions
from recombine.measure.renders import fresh, single_object_world
from recombine.report.page import Group, Picture, Section
from recombine.report.picture import FOUND, MISSED, pictures
from recombine.run import Model
from recombine.scene import Concepts, concept_rows

SHOWN = {
    "dit": "DiT, squared error of noisy code vectors",
    "maskgit_squared": "MaskGIT, squared error of masked code vectors",
    "maskgit": "MaskGIT, cross-entropy of masked codes",
}
COUNT, SIDE = 12, 84
CAPTION = (
    "Small models that have seen 18 of the 96 combinations of shape, size and colour draw twelve "
    "that they have not seen, each once and none picked. A green bar: a reader that fits renders "
    "takes the sample for what was requested. A red bar: it does not, or takes it for nothing "
    "valid. The full study has its own page (docs/studies/coverage.md)."
)


def combinations(seed: int, device: torch.device) -> Section:
    """Return what the shipped models make of unseen combinations, below true renders."""
    models = {name: chosen_model(zoo.path(name), device) for name in SHOWN}
    first = next(iter(models.values()))
    measure = measured(first)
    which = measure.split.test[:: max(1, len(measure.split.test) // COUNT)][:COUNT]
    world = single_object_world("the demo", first.training, measure.split)
    true = torch.cat([fresh(world, each, 1, device) for each in which])
    groups = [group("true renders of what is requested", true, which, first)]
    for name, model in models.items():
        say(f"{name} draws {len(which)} combinations")
        condition = conditions(measured(model), model, which, 1)
        images = model.images(condition, torch.Generator(device).manual_seed(seed))
        groups.append(group(SHOWN[name], images.float().clamp(0, 1), which, model))
    command = "recombine measure zoo:dit --what composition --samples 8"
    return Section("Combinations that were never seen", CAPTION, command, groups=tuple(groups))


def measured(model: Model) -> Composition:
    """Return the measurement of composition that a model's study declares."""
    (found,) = (each for each in model.cell.measures if isinstance(each, Composition))
    return found


def group(
    label: str,
    images: Float[Tensor, "batch 3 height width"],
    which: Sequence[Concepts],
    model: Model,
) -> Group:
    """Return the samples of a model in a row, each marked as right or wrong."""
    world = model.training.world
    rows = model.reader("fit")(images).rows
    right = (rows == concept_rows(world.factors, which).to(rows.device)).all(dim=1)
    note = f"{int(right.sum())} of {len(which)} are what was requested."
    sheet = marked(images, right)
    words = f"{label}: {', '.join(' '.join(each) for each in which)}"
    return Group(label, note, (Picture.of(sheet, words),))


def marked(
    images: Float[Tensor, "batch 3 height width"], right: Bool[Tensor, " batch"], columns: int = 6
) -> Image.Image:
    """Return enlarged samples in rows, a bar below each: green if it is right, red if not."""
    bar, gap = 6, 8
    step, rows = SIDE + gap, -(-len(images) // columns)
    sheet = Image.new("RGB", (columns * step - gap, rows * (step + bar) - gap), "white")
    pen = ImageDraw.Draw(sheet)
    for number, (picture, good) in enumerate(zip(pictures(images), right.tolist(), strict=True)):
        row, column = divmod(number, columns)
        left, top = column * step, row * (step + bar)
        sheet.paste(picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS), (left, top))
        box = (left, top + SIDE, left + SIDE - 1, top + SIDE + bar - 1)
        pen.rectangle(box, fill=FOUND if good else MISSED)
    return sheet
