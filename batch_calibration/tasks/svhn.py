"""SVHN: which digit stands in the middle of a cropped photo of a house number."""

from batch_calibration.tasks.image import image_task

SVHN = image_task(
    "svhn",
    "SVHN",
    {digit: digit for digit in "0123456789"},
    (
        "This is a photo of a {label}",
        'a photo of the number: "{label}".',
        "a photo of the digit {label}.",
    ),
    tfds=("svhn_cropped",),
    source="statement 1: BlackVIP (Oh et al. 2023); 2: CLIP's for MNIST (Radford et al. 2021); "
    "3: ours",
)
