"""Readers of servers' answers: lists of probable tokens, and prompts scored token by token."""

from batch_calibration.responses.servers import (
    RESPONSE_FORMATS,
    PromptTokens,
    add_token,
    check_log_prob,
    end_log_prob,
    label_mass,
    label_probs,
    note_little_mass,
    read_log_prob,
    refuse_constant,
    value_at,
)
from batch_calibration.responses.top_k import (
    AROUND,
    SPACES,
    TopK,
    fold,
    refuse_absent_labels,
    scores_of_top_k,
)

__all__ = [
    "AROUND", "RESPONSE_FORMATS", "SPACES", "PromptTokens", "TopK", "add_token",
    "check_log_prob", "end_log_prob",
    "fold", "label_mass", "label_probs", "note_little_mass", "read_log_prob",
    "refuse_absent_labels", "refuse_constant", "scores_of_top_k", "value_at",
]  # fmt: skip
