"""Show what a model will be asked, where its labels begin and what that costs; no weights needed.

python -m experiments.show --config=configs/mini.py --rows=3
"""

from absl import flags

from experiments import cli

CONFIG = cli.config_flag("the study to show")
ROWS = flags.DEFINE_integer("rows", 3, "rows of each block to show", lower_bound=1)
COST = flags.DEFINE_boolean("cost", True, "count the tokens of the whole sweep")


def main() -> None:
    """Show the first context of each task, then the cost of all."""
    from batch_calibration.scoring.table import SCORERS
    from batch_calibration.study.loading import load_scorer, load_token_budget, open_model
    from batch_calibration.study.scoring import render_contexts
    from experiments import preview

    settings, cells = cli.configured_study()
    asks_server, files = SCORERS[settings.model.scorer].asks_server, open_model(settings)
    budget = load_token_budget(settings, files)
    if budget is None:
        # Without a tokenizer no prompt can be measured: show each as it is before it is fitted.
        cells = tuple(cell.unfitted() for cell in cells)
        key = "tokenizer" if asks_server else "model"
        print(f"config.{key} is empty: texts only, no tokens, over-long prompts as they are.\n")
    contexts = render_contexts(settings, cells, files=files)
    preview.show(contexts, settings.model, budget, ROWS.value)
    if COST.value and asks_server:
        preview.show_api_cost(contexts, load_scorer(settings, files=files))
    elif COST.value:
        preview.show_cost(contexts, settings.model, budget)


if __name__ == "__main__":
    cli.enter(main, loads=("jax",))
