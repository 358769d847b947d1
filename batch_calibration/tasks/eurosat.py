"""EuroSAT: what kind of land a satellite photo shows."""

from batch_calibration.tasks.image import image_task

EUROSAT = image_task(
    "eurosat",
    "EuroSAT",
    {
        "AnnualCrop": "Annual Crop Land",
        "Forest": "Forest",
        "HerbaceousVegetation": "Herbaceous Vegetation Land",
        "Highway": "Highway or Road",
        "Industrial": "Industrial Buildings",
        "Pasture": "Pasture Land",
        "PermanentCrop": "Permanent Crop Land",
        "Residential": "Residential Buildings",
        "River": "River",
        "SeaLake": "Sea or Lake",
    },
    (
        "a centered satellite photo of {label}.",
        "a centered satellite photo of a {label}.",
        "a centered satellite photo of the {label}.",
    ),
    tfds=("eurosat/rgb",),
    source="label words and statement 1: CoOp (Zhou et al. 2022), which BlackVIP keeps; all "
    "statements: CLIP (Radford et al. 2021), prompts.md",
)
