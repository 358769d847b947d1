"""DTD: which of 47 words people use for a texture describes the image best."""

from batch_calibration.tasks.image import image_task

LISTED = (
    "banded blotchy braided bubbly bumpy chequered cobwebbed cracked crosshatched crystalline "
    "dotted fibrous flecked freckled frilly gauzy grid grooved honeycombed interlaced knitted "
    "lacelike lined marbled matted meshed paisley perforated pitted pleated polka-dotted porous "
    "potholed scaly smeared spiralled sprinkled stained stratified striped studded swirly veined "
    "waffled woven wrinkled zigzagged"
)
NAMES = LISTED.split()
DTD = image_task(
    "dtd",
    "DTD",
    {name: name for name in NAMES},
    (
        "{label} texture.",
        *(
            f"a photo of {article} {{label}} {noun}."
            for article in ("a", "the")
            for noun in ("texture", "pattern", "thing", "object")
        ),
    ),
    tfds=("dtd",),
    source="statement 1: CoOp (Zhou et al. 2022), which BlackVIP keeps; the others: CLIP (Radford "
    "et al. 2021), prompts.md",
)
