"""CLEVR as a counting task: how many objects, 3 to 10, stand in the scene."""

from batch_calibration.tasks.image import image_task

CLEVR = image_task(
    "clevr",
    "CLEVR",
    {str(count): str(count) for count in range(3, 11)},
    (
        "This is a photo of {label} objects",
        "a photo of {label} objects.",
        "there are {label} objects in the picture.",
    ),
    tfds=("clevr",),
    source="statement 1: BlackVIP (Oh et al. 2023); 2: CLIP's CLEVRCounts (Radford et al. 2021); "
    "3: ours",
)
