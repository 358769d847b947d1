"""UCF101: which of 101 actions the middle frame of a video shows.

TFDS has the videos, and its video feature cannot be read without TensorFlow: give middle frames.
"""

import re

from batch_calibration.tasks.image import image_task

LISTED = (
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
NAMES = LISTED.split()
UCF101 = image_task(
    "ucf101",
    "UCF101",
    {name: re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name) for name in NAMES},
    (
        "a photo of a person doing {label}.",
        *(
            f"a {noun} of {article} person {verb}{{label}}."
            for verb in ("", "using ", "doing ", "during ", "performing ", "practicing ")
            for article in ("a", "the")
            for noun in ("photo", "video", "example", "demonstration")
            if (noun, article, verb) != ("photo", "a", "doing ")
        ),
    ),
    source="names: the data set's classInd.txt (Soomro et al. 2012); statement 1: CoOp (Zhou et "
    "al. 2022), which BlackVIP keeps; all 48: CLIP (Radford et al. 2021), prompts.md",
)
