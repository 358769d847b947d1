"""Which tests `make test` leaves to `make test-all`: what takes long and seldom breaks alone.

A rule is the beginning of a test's name and why it is slow; of several the longest counts, and an
empty reason makes what it names part of `make test` again. The goal of `make test` is 12 minutes of
processor time; `pytest --durations=20 -m "not slow"` shows what uses them.
"""

TRAINING = "trains a network"
SHIPPED = "shipped data and weights, which change by intention alone"
WORKERS = "workers, kills, clusters"
BROWSER = "drives a browser, or LaTeX"
EVIDENCE = "computes pages of evidence from the shared scores"
COMBINATIONS = "every option of every case: a few cases stand for them"
SIZE = "sizes that take seconds to compile or to fill"
SIMULATIONS = "thousands of simulated data sets"
PROGRAMS = "programs in processes of their own"
REGISTRY = "fetches packages and runs a model of 135 M weights"
DRAWINGS = "draws every figure: test_programs.py draws most of them"

RULES = {
    "test_ablations.py": TRAINING,
    "test_accelerator_benchmark.py::test_quick": SIZE,
    "test_allocator.py": PROGRAMS,
    "test_api.py::test_every_method_goes_through": COMBINATIONS,
    "test_api_study.py::test_the_programs_ask_estimate": PROGRAMS,
    "test_boundary_tokens.py::test_context_and_label_make_the_tokens_of_both": COMBINATIONS,
    "test_boundary_tokens.py::test_context_and_label_make_the_tokens_of_both_together[0-sst2": "",
    "test_boundary_tokens.py::test_context_and_label_make_the_tokens_of_both_together[0-mnli": "",
    "test_boundary_tokens.py::test_context_and_label_make_the_tokens_of_both_together[0-wic": "",
    "test_boundary_tokens.py::test_context_and_label_make_the_tokens_of_both_together[0-copa": "",
    "test_boundary_tokens.py::test_context_and_label_make_the_tokens_of_both_together[1-sst2": "",
    "test_boundary_tokens.py::test_context_and_label_make_the_tokens_of_both_together[1-mnli": "",
    "test_calibration_study.py::test_every_metric_is_that_of_the_method_alone": COMBINATIONS,
    "test_calibration_study.py::test_every_metric_is_that_of_the_method_alone[2": "",
    "test_cli.py::test_a_study_without_a_checkout": PROGRAMS,
    "test_compilation_cache.py": PROGRAMS,
    "test_contract.py": COMBINATIONS,
    "test_contract.py::test_a_method_that_reads_labels_asks_for_them": "",
    "test_contract.py::test_compare": "",
    "test_contract.py::test_every_method_and_every_option_is_under_contract": "",
    "test_contract.py::test_missing_block_is_a_sentence": "",
    "test_contract.py::test_test_labels_are_hidden_from_every_method": "",
    "test_contract.py::test_the_table_says_what_each_method_learns_from": "",
    "test_contract.py::test_unknown_method_names_the_nearest": "",
    "test_contract.py::test_what_is_drawn_and_recorded_is_the_paper_s": "",
    "test_coverage.py": SIMULATIONS,
    "test_demonstration_labels.py::test_the_verdict_on_models_of_which_it_is_known": SHIPPED,
    "test_engine_families.py": COMBINATIONS,
    "test_engine_families.py::test_every_causal_family_is_here": "",
    "test_environments.py": PROGRAMS,
    "test_estimator.py::test_scikit_learn_s_checks_pass_but_those_that_are_named[bc-": COMBINATIONS,
    "test_evidence.py": EVIDENCE,
    "test_evidence.py::test_a_page_without_marks": "",
    "test_evidence.py::test_a_verdict_needs_the_interval_and_the_test": "",
    "test_evidence.py::test_configs_are_locked": "",
    "test_evidence.py::test_holm_is_the_textbook_s": "",
    "test_evidence.py::test_mcnemar_is_the_exact_binomial_test": "",
    "test_evidence.py::test_rows_set_apart": "",
    "test_evidence.py::test_the_sign_flip_test_is_scipy_s": "",
    "test_example.py": PROGRAMS,
    "test_families.py::test_every_option_matters": COMBINATIONS,
    "test_families.py::test_every_weight_matters": COMBINATIONS,
    "test_families.py::test_half_precision_stays_half": COMBINATIONS,
    "test_families.py::test_logits_of_some_tokens_alone": COMBINATIONS,
    "test_families.py::test_what_was_saved_comes_back": COMBINATIONS,
    "test_fuzz.py": SIZE,
    "test_gain.py::test_matching_by_few_rows_is_better_than_the_law_says[100": SIZE,
    "test_image_tasks.py::test_captions_hold_the_tasks_own_statements": SHIPPED,
    "test_image_tasks.py::test_drawn_images_are_the_same_every_time": SHIPPED,
    "test_image_tasks.py::test_drawn_rows_are_the_real_tasks_rows": SHIPPED,
    "test_image_tasks.py::test_real_images": SHIPPED,
    "test_image_tasks.py::test_training_pairs_repeat_by_seed": TRAINING,
    "test_import_tables.py::test_mmlu_by_subject_is_the_reference_table[never": COMBINATIONS,
    "test_joint_attention.py::test_equals_softmax_in_float64": COMBINATIONS,
    "test_joint_attention.py::test_equals_softmax_in_float64[8": "",
    "test_joint_attention.py::test_equals_softmax_in_float64[bfloat16": "",
    "test_joint_attention.py::test_equals_softmax_in_float64[groups, a prefix": "",
    "test_joint_attention.py::test_the_engine_scores_alike": COMBINATIONS,
    "test_joint_attention.py::test_the_engine_scores_alike[gemma2": "",
    "test_label_sequences.py::test_the_program_scores_once_and_prints_the_table": SIZE,
    "test_laws.py::test_equal_rows_leave_nothing_to_tell_apart[3": COMBINATIONS,
    "test_laws.py::test_equal_rows_leave_nothing_to_tell_apart[5": COMBINATIONS,
    "test_laws.py::test_no_finite_score_within_bounds_becomes_nan": COMBINATIONS,
    "test_laws.py::test_scores_whose_squares_overflow_are_scaled": SIMULATIONS,
    "test_mesh.py": WORKERS,
    "test_mesh.py::test_flags_that_name_no_devices": "",
    "test_mesh.py::test_meshes_that_cannot_be": "",
    "test_mini.py": SHIPPED,
    "test_mini.py::test_best_accuracy_is_known_and_below_one": "",
    "test_mini.py::test_noise_parts_labels_from_texts": "",
    "test_mini.py::test_templates_and_label_words_fit_the_task": "",
    "test_mini.py::test_what_the_suite_does_not_have_is_a_sentence": "",
    "test_names.py::test_nothing_is_written_beside": DRAWINGS,
    "test_notebooks.py": PROGRAMS,
    "test_paper.py::test_every_item_is_drawn": DRAWINGS,
    "test_paper.py::test_files_written_again": DRAWINGS,
    "test_paper.py::test_latex_compiles": BROWSER,
    "test_paper.py::test_the_page_says": DRAWINGS,
    "test_pooled_shares.py::test_gains_on_real_scores": EVIDENCE,
    "test_programs.py::test_a_config_and_a_method_of_ones_own": PROGRAMS,
    "test_programs.py::test_a_disk_that_is_full": PROGRAMS,
    "test_programs.py::test_a_program_without_a_reader_goes_on": PROGRAMS,
    "test_programs.py::test_a_task_of_ones_own_from_csv_to_a_table": SIZE,
    "test_programs.py::test_an_interrupted_score_goes_on_from_there": PROGRAMS,
    "test_programs.py::test_an_interruption_while_imports_or_hooks_run": PROGRAMS,
    "test_programs.py::test_an_output_that_is_full": PROGRAMS,
    "test_programs.py::test_help_of_a_program": PROGRAMS,
    "test_programs.py::test_programs_make_the_store_of_the_commands": PROGRAMS,
    "test_programs.py::test_training_that_cannot_be": PROGRAMS,
    "test_programs.py::test_wrong_flags_of_a_program": PROGRAMS,
    "test_prototypes_at_size.py": SIZE,
    "test_prototypes_at_size.py::test_a_sample_is_of_present_rows": "",
    "test_ray_example.py": WORKERS,
    "test_readme.py::test_pages_print_what_their_comments_say": PROGRAMS,
    "test_readme.py::test_pages_print_what_their_comments_say[README": "",
    "test_real.py::test_the_smoke_run": REGISTRY,
    "test_report.py::test_the_page_is_printed_whole": BROWSER,
    "test_site.py": BROWSER,
    "test_sharing.py": WORKERS,
    "test_sharing.py::test_a_process_is_known_by_its_beginning": "",
    "test_sharing.py::test_writers_of_one_context_with_other_blocks": "",
    "test_shipped_model.py": SHIPPED,
    "test_skips.py": PROGRAMS,
    "test_stories.py": SHIPPED,
    "test_stale.py::test_a_report_shows_its_own_studys_figures_alone": SIZE,
    "test_studies.py::test_scoring_says_how_many_prompts_it_shortened": SIZE,
    "test_sweep.py": WORKERS,
    "test_sweep.py::test_flags_of_a_sweep_that_cannot_be": "",
    "test_sweep.py::test_gpus_are_shared_out": "",
    "test_sweep.py::test_what_is_asked_of_sbatch": "",
    "test_sweep.py::test_without_slurm_one_sentence": "",
    "test_train_mini.py": TRAINING,
    "test_train_mini.py::test_a_gate_asks_for_the_mean": "",
    "test_train_mini.py::test_progress_keeps_every_step": "",
    "test_train_mini.py::test_stages_that_cannot_be": "",
    "test_train_mini.py::test_the_curve": "",
    "test_train_mini_clip.py": TRAINING,
    "test_train_mini_clip.py::test_the_shipped_checkpoint_is_small": "",
    "test_vision.py::test_real_images": SHIPPED,
    "test_weights.py::test_weights_stream_to_their_place": SIZE,
}

# Cases that stand for the others.
FAMILIES = ("gemma3_text_local", "gpt2_plain", "llama_biased", "neox_parallel")
OF_NETWORKS = (
    "every_weight_matters", "half_precision_stays_half", "logits_of_some_tokens_alone",
    "what_was_saved_comes_back",
)  # fmt: skip
METHODS = ("icl", "cc", "bc", "bc, prior", "bcl", "bc_running", "pmi", "temperature")
OF_METHODS = (
    "all_rows_absent_is_finite", "any_number_of_labels", "eager_jit_and_vmaps_agree",
    "floor_lifts_minus_infinity", "order_of_probe_rows_is_nothing",
    "relabelling_permutes_the_scores", "second_call_does_not_recompile",
    "weight_two_is_there_twice", "weight_zero_is_absent_even_where_the_row_is_nan",
)  # fmt: skip


def slow_because(name: str) -> str:
    """Why a test is slow, "" where it is part of `make test`.

    Args:
        name: its file in tests/ and what comes after, `test_laws.py::test_bc_twice_is_bc`.
    """
    file, _, test = name.partition("::test_")
    function, _, case = test.removesuffix("]").partition("[")
    if file == "test_families.py" and function in OF_NETWORKS and case in FAMILIES:
        return ""
    if file == "test_contract.py" and function in OF_METHODS and case.removesuffix("-2") in METHODS:
        return ""
    fitting = [rule for rule in RULES if name.startswith(rule)]
    return RULES[max(fitting, key=len)] if fitting else ""


def unused_rules(names: list[str]) -> list[str]:
    """Rules that name no test: of a test that is called otherwise now."""
    return [rule for rule in RULES if not any(name.startswith(rule) for name in names)]
