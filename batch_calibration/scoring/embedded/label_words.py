"""Words that may replace labels though they name none: words of training, and words held out.

Training of the embedded model draws label words from `TRAINING` and never from `HELD_OUT`; to any
other checkpoint both are ordinary words. `experiments/pretrain/label_words.py` has the rule that
chose them.
"""

import numpy as np

from batch_calibration.errors import InputError
from batch_calibration.scoring.tasks.base import Task

TRAINING_WORDS = (
    "account acting air animal anniversary asked ate autograph azure badly baker ball balloons "
    "bank bat beams became bed began bent birds blanket blew books boots bought boy brightest "
    "broke burned buses busy call called came camera candle candles capital car carpet cast cats "
    "caught cave champion chose clinic clock clothes coach coat color companion cooked coughed "
    "crane cream crimson dancer dark dialogue diamonds dining dinner director distant doctor "
    "dozing drama dream dressed drew driver drove dry dusk early eating elephant emotion engine "
    "enjoys far farmer feared feeds felines fell filed filled film finale flu fly fond food "
    "fortune found friendly furious furry girl glad gloomy grassy green guard guesses hammered "
    "happy harbor heating hero hit home horses hounds humor hung hungry inherited ink invited jog "
    "joke journey juice keeps kitten knocked known knows lake lamp lawyer lay leather left letter "
    "lifted likes lime lit loaded loan lost lottery lunch mailed man mansion mares match meal "
    "mechanic met midnight mood moved movie mud named nap navy nest novel nurse occupation old "
    "olive opened opening ordered owns pacing packed painted painter parrot pastime patted "
    "performance pet photographed picture pigeons pill pillow pink pizza planes planted present "
    "puppy put rail ran read reading red remembered rents repaired repairs replaced rested "
    "retired riddle road robbed rock rowed running rusty sad sailor sat saw scared scarf scarlet "
    "score sea sentences shade shelter ships shirts shiver shows singer sleeper sleeping sleepy "
    "smile snow snowy soap soundtrack soup spelled spilled spray spring stained stamp star "
    "stepped storm story stove struck studying suitcases swallowed switched swung tailor tear "
    "telescope tell temper thirty thriller throat thunder tickets tire took tow trains transport "
    "travels tree trunk turned umbrella used vehicle villain waited wanted washed watched way "
    "wears wedding went winter woman won wooden word words wore worked wrapped writer wrote "
    "yawned young"
)
HELD_OUT_WORDS = (
    "activity afraid angry bath blue boxed cabin clouds comedy comes dogs drank ending fed feels "
    "fetched fever final fished flight freeze glass gold got heard homeland hue late lemonade "
    "locked mattress metal missed muddy nail nationality oiled origin paid party pilot plot pony "
    "quiet racing ring romance scowl script smoke student tall teacher thirsty thumb truck tulips "
    "typed water white"
)
TRAINING = tuple(TRAINING_WORDS.split())
HELD_OUT = tuple(HELD_OUT_WORDS.split())
POOLS = {"training": TRAINING, "held_out": HELD_OUT}
"""Lists of words by what `config.label_words` calls them."""


def draw_words(pool: str, task: Task, seed: int) -> tuple[str, ...]:
    """A word for each label of a task.

    They depend on the seed and the number of labels alone: tasks, templates and shots of one seed
    share them. A word of the task's own labels, in any verbalizer, is skipped.

    >>> from batch_calibration.scoring.tasks import TASKS
    >>> draw_words("held_out", TASKS["sst2"], 0) == draw_words("held_out", TASKS["rte"], 0)
    True
    """
    own_words = task.own_words
    order = np.random.default_rng([seed, 6]).permutation(len(POOLS[pool]))
    # The pool is shuffled whole, so that skipped words change nothing for other tasks.
    shuffled = [POOLS[pool][i] for i in order]
    drawn = [word for word in shuffled if word not in own_words]
    if len(drawn) < len(task.label_names):
        raise InputError(
            f"{task.name} has {len(task.label_names)} labels, and the list "
            f"{pool!r} has {len(drawn)} words; give 'own', or a list with more.",
            key="label_words",
        )
    return tuple(drawn[: len(task.label_names)])
