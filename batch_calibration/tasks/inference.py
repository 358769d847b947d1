"""What MNLI, CB and ANLI share: the paper prints one row of templates and words for the three."""

FIELDS = ("premise", "hypothesis")
FEW_SHOT = "Premise: {premise}\nHypothesis: {hypothesis}\nAnswer: {label}"
ZERO_SHOT = "{premise}\nQuestion: {hypothesis} yes, no, or maybe?\nAnswer: {label}"
STATEMENT = "The second sentence is {label} of the first."
SOURCE = "Zhou et al. 2024, app. F, Tables 8 and 11 (templates)"
