"""Tasks of images: what each class is called, and the statements that CLIP reads of it."""

import re
from itertools import product

from batch_calibration.scoring.tasks.base import image_task

# Which digit stands in the middle of a cropped photo of a house number?
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
# What kind of land does a satellite photo show?
EUROSAT = image_task(
    "eurosat",
    "EuroSAT",
    {"AnnualCrop": "Annual Crop Land", "Forest": "Forest",
     "HerbaceousVegetation": "Herbaceous Vegetation Land", "Highway": "Highway or Road",
     "Industrial": "Industrial Buildings", "Pasture": "Pasture Land",
     "PermanentCrop": "Permanent Crop Land", "Residential": "Residential Buildings",
     "River": "River", "SeaLake": "Sea or Lake"},
    (
        "a centered satellite photo of {label}.",
        "a centered satellite photo of a {label}.",
        "a centered satellite photo of the {label}.",
    ),
    tfds=("eurosat/rgb",),
    source="label words and statement 1: CoOp (Zhou et al. 2022), which BlackVIP keeps; all "
    "statements: CLIP (Radford et al. 2021), prompts.md",
)  # fmt: skip
# Which of 101 actions does the middle frame of a video show? TFDS has the videos, and its
# video feature cannot be read without TensorFlow: give middle frames.
LISTED_ACTIONS = (
    "ApplyEyeMakeup ApplyLipstick Archery BabyCrawling BalanceBeam BandMarching BaseballPitch "
    "Basketball BasketballDunk BenchPress Biking Billiards BlowDryHair BlowingCandles "
    "BodyWeightSquats Bowling BoxingPunchingBag BoxingSpeedBag BreastStroke BrushingTeeth "
    "CleanAndJerk CliffDiving CricketBowling CricketShot CuttingInKitchen Diving Drumming Fencing "
    "FieldHockeyPenalty FloorGymnastics FrisbeeCatch FrontCrawl GolfSwing Haircut Hammering "
    "HammerThrow HandstandPushups HandstandWalking HeadMassage HighJump HorseRace HorseRiding "
    "HulaHoop IceDancing JavelinThrow JugglingBalls JumpingJack JumpRope Kayaking Knitting "
    "LongJump Lunges MilitaryParade Mixing MoppingFloor Nunchucks ParallelBars PizzaTossing "
    "PlayingCello PlayingDaf PlayingDhol PlayingFlute PlayingGuitar PlayingPiano PlayingSitar "
    "PlayingTabla PlayingViolin PoleVault PommelHorse PullUps Punch PushUps Rafting "
    "RockClimbingIndoor RopeClimbing Rowing SalsaSpin ShavingBeard Shotput SkateBoarding Skiing "
    "Skijet SkyDiving SoccerJuggling SoccerPenalty StillRings SumoWrestling Surfing Swing "
    "TableTennisShot TaiChi TennisSwing ThrowDiscus TrampolineJumping Typing UnevenBars "
    "VolleyballSpiking WalkingWithDog WallPushups WritingOnBoard YoYo"
)
ACTIONS = LISTED_ACTIONS.split()
VERBS = ("", "using ", "doing ", "during ", "performing ", "practicing ")
PICTURES = ("photo", "video", "example", "demonstration")
USUAL_ACTION = "a photo of a person doing {label}."
ACTION_STATEMENTS = []
for verb, article, picture in product(VERBS, ("a", "the"), PICTURES):
    ACTION_STATEMENTS.append(f"a {picture} of {article} person {verb}{{label}}.")
UCF101 = image_task(
    "ucf101",
    "UCF101",
    # "WalkingWithDog" is "Walking With Dog" to CLIP.
    {name: re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name) for name in ACTIONS},
    # The usual one first, then the others in their order.
    tuple(sorted(ACTION_STATEMENTS, key=lambda statement: statement != USUAL_ACTION)),
    source="names: the data set's classInd.txt (Soomro et al. 2012); statement 1: CoOp (Zhou et "
    "al. 2022), which BlackVIP keeps; all 48: CLIP (Radford et al. 2021), prompts.md",
)
# How many objects, 3 to 10, stand in the scene?
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
# Which of 100 aircraft variants does a photo show (FGVC-Aircraft)?
LISTED_VARIANTS = (
    "707-320, 727-200, 737-200, 737-300, 737-400, 737-500, 737-600, 737-700, 737-800, 737-900, "
    "747-100, 747-200, 747-300, 747-400, 757-200, 757-300, 767-200, 767-300, 767-400, 777-200, "
    "777-300, A300B4, A310, A318, A319, A320, A321, A330-200, A330-300, A340-200, A340-300, "
    "A340-500, A340-600, A380, ATR-42, ATR-72, An-12, BAE 146-200, BAE 146-300, BAE-125, "
    "Beechcraft 1900, Boeing 717, C-130, C-47, CRJ-200, CRJ-700, CRJ-900, Cessna 172, Cessna 208, "
    "Cessna 525, Cessna 560, Challenger 600, DC-10, DC-3, DC-6, DC-8, DC-9-30, DH-82, DHC-1, "
    "DHC-6, DHC-8-100, DHC-8-300, DR-400, Dornier 328, E-170, E-190, E-195, EMB-120, ERJ 135, "
    "ERJ 145, Embraer Legacy 600, Eurofighter Typhoon, F-16A/B, F/A-18, Falcon 2000, Falcon 900, "
    "Fokker 100, Fokker 50, Fokker 70, Global Express, Gulfstream IV, Gulfstream V, Hawk T1, "
    "Il-76, L-1011, MD-11, MD-80, MD-87, MD-90, Metroliner, Model B200, PA-28, SR-20, Saab 2000, "
    "Saab 340, Spitfire, Tornado, Tu-134, Tu-154, Yak-42"
)
VARIANTS = LISTED_VARIANTS.split(", ")
AIRCRAFT = image_task(
    "aircraft",
    "Aircraft",
    dict(zip(VARIANTS, VARIANTS, strict=True)),
    ("a photo of a {label}, a type of aircraft.", "a photo of the {label}, a type of aircraft."),
    source="names: the data set's variants.txt (Maji et al. 2013); statement 1: CoOp (Zhou et al. "
    "2022), which BlackVIP keeps; both: CLIP (Radford et al. 2021), prompts.md",
)
# Which of 47 words that people use for a texture describes the image best?
LISTED_TEXTURES = (
    "banded blotchy braided bubbly bumpy chequered cobwebbed cracked crosshatched crystalline "
    "dotted fibrous flecked freckled frilly gauzy grid grooved honeycombed interlaced knitted "
    "lacelike lined marbled matted meshed paisley perforated pitted pleated polka-dotted porous "
    "potholed scaly smeared spiralled sprinkled stained stratified striped studded swirly veined "
    "waffled woven wrinkled zigzagged"
)
TEXTURES = LISTED_TEXTURES.split()
OF_TEXTURES = "texture", "pattern", "thing", "object"
DTD = image_task(
    "dtd",
    "DTD",
    dict(zip(TEXTURES, TEXTURES, strict=True)),
    (
        "{label} texture.",
        *(f"a photo of a {{label}} {noun}." for noun in OF_TEXTURES),
        *(f"a photo of the {{label}} {noun}." for noun in OF_TEXTURES),
    ),
    tfds=("dtd",),
    source="statement 1: CoOp (Zhou et al. 2022), which BlackVIP keeps; the others: CLIP (Radford "
    "et al. 2021), prompts.md",
)
