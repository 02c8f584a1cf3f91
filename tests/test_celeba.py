from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dataset_files import FACES, grey, named, write_celeba
from recombine.worlds.files.celeba import CELEBA, CelebA


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    return write_celeba(tmp_path / "celeba")


def rewritten(folder: Path, old: str, new: str) -> None:
    path = folder / "list_attr_celeba.txt"
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new, 1))


def test_faces_have_the_factors_and_the_split_of_the_study():
    assert CelebA.factors == CELEBA.factors


def test_faces_with_black_or_blond_hair_are_kept_with_their_concepts(faces: Path):
    celeba = CelebA(faces, part="train", among=(), tested=(0, 0))
    kept = [face for face in FACES if ("Black_Hair" in face) != ("Blond_Hair" in face)]
    expected = [
        (
            "male" if "Male" in face else "female",
            "smiling" if "Smiling" in face else "not smiling",
            "black" if "Black_Hair" in face else "blond",
        )
        for face in kept
    ]
    assert len(celeba) == len(kept) == 11
    scenes = celeba.scenes_of(torch.arange(11))
    assert named(scenes, celeba.factors) == expected
    assert scenes.present.all()


def test_the_first_faces_of_each_composition_are_for_testing(faces: Path):
    # Of each seen composition one, of each other two: the numbers are those of dataset_files.FACES.
    expected = {
        ("train", CELEBA.seen): [8, 9, 11, 12],
        ("test", CELEBA.seen): [0, 1, 6, 7],
        ("train", ()): [8, 9, 11, 12],
        ("test", ()): [0, 1, 3, 5, 6, 7, 10],
        ("test", (("male", "not smiling", "blond"),)): [5, 10],
    }
    for (part, among), numbers in expected.items():
        celeba = CelebA(faces, part=part, among=among, tested=(1, 2), size=4)
        shades = celeba.image_of(torch.arange(len(celeba))).mean(dim=(1, 2, 3)) * 255
        assert shades.round().int().tolist() == [grey(number) for number in numbers]


def test_by_default_ten_thousand_and_a_hundred_faces_are_for_testing(faces: Path):
    assert CelebA(faces).tested == (10_000, 100)
    with pytest.raises(ValueError, match="no face of the train part is of a wanted composition"):
        len(CelebA(faces))
    assert len(CelebA(faces, part="test")) == 8


def test_faces_are_resized_without_a_crop(faces: Path):
    pixels = np.random.default_rng(2).integers(0, 256, (218, 178, 3), dtype=np.uint8)
    path = faces / "img_align_celeba" / "000001.jpg"
    Image.fromarray(pixels).save(path, quality=100)
    decoded = torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)[None].float()
    resized = torch.nn.functional.interpolate(decoded, (48, 48), mode="bicubic", antialias=True)
    image = CelebA(faces, part="test").image_of(torch.tensor([0]))
    assert image.shape == (1, 3, 48, 48)
    # Pillow rounds to whole steps of 1/255, once per axis.
    torch.testing.assert_close(image, resized.clamp(0, 255) / 255, atol=1.6 / 255, rtol=0)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("13\n", "14\n", "promises 14 faces; found 13"),
        ("13\n", "12\n", "promises 12 faces; found 13"),
        ("13\n", "", "expected the number of faces, then a line of column names"),
        ("13\n", "-13\n", "expected the number of faces"),
        (" Smiling", "", "expected one column Smiling; found 0"),
        (" Young", " Male", "expected one column Male; found 2"),
        (" Bald", "", "line 3 has 41 entries; expected 40"),
        ("000003.jpg -1", "000003.jpg  0", "line 5 marks 000003.jpg with '0'; expected 1 or -1"),
        ("000002.jpg", "../000002.jpg", "no image ../000002.jpg"),
        ("000002.jpg", "000001.jpg", "000001.jpg is listed twice"),
        ("000002.jpg", "other.jpg", "has no image other.jpg, which is listed"),
        ("000002.jpg", "000002\x00.jpg", "has no image"),
    ],
)
def test_a_wrong_attribute_list_says_what_is_wrong(faces: Path, old: str, new: str, line: str):
    rewritten(faces, old, new)
    with pytest.raises(ValueError, match=line):
        len(CelebA(faces, part="test"))


def test_an_empty_or_binary_attribute_list_is_refused(faces: Path):
    path = faces / "list_attr_celeba.txt"
    for content, line in [(b"", "expected the number"), (b"\xff\xfe\x80", "not a text file")]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=line):
            len(CelebA(faces))


def test_missing_parts_of_celeba_are_named(faces: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="nowhere/img_align_celeba is not a folder"):
        len(CelebA(tmp_path / "nowhere"))
    (faces / "list_attr_celeba.txt").unlink()
    with pytest.raises(ValueError, match="list_attr_celeba.txt is missing"):
        len(CelebA(faces))


def test_a_truncated_jpeg_is_refused_when_it_is_read(faces: Path):
    path = faces / "img_align_celeba" / "000001.jpg"
    path.write_bytes(path.read_bytes()[:-400])
    celeba = CelebA(faces, part="test")
    assert len(celeba) == 8
    with pytest.raises(ValueError, match="000001.jpg is not a whole JPEG image"):
        celeba.image_of(torch.tensor([0]))


def test_a_face_that_is_a_link_out_of_the_folder_is_refused(faces: Path, tmp_path: Path):
    path = faces / "img_align_celeba" / "000001.jpg"
    path.rename(tmp_path / "secret.jpg")
    path.symlink_to(tmp_path / "secret.jpg")
    with pytest.raises(ValueError, match="000001.jpg is a link that leaves the data set"):
        CelebA(faces, part="test").image_of(torch.tensor([0]))


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"part": "valid"}, "read as train or test; got 'valid'"),
        ({"size": 0}, "at least 1 pixel; got 0"),
        ({"tested": (-1, 0)}, r"counted from 0 up; got \(-1, 0\)"),
    ],
)
def test_impossible_wishes_of_celeba_are_refused(asked: dict, line: str):
    with pytest.raises(ValueError, match=line):
        CelebA(Path("celeba"), **asked)


def test_an_unknown_composition_of_faces_is_refused(faces: Path):
    with pytest.raises(ValueError, match="hair is one of black, blond; got 'red'"):
        len(CelebA(faces, among=(("male", "smiling", "red"),)))
