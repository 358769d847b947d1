"""The examples for Ray give the scores of a server asked directly, and BC of all rows at once."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import api_server
import numpy as np
import pyarrow as pa
import pytest
from processes import python
from pyarrow import parquet
from table_scores import equal, scores

import batch_calibration as bc
from batch_calibration import cli

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STUDY = ("--data=mini", "--tasks=sst2", "--limit=20", "--shots=0", "--model=m")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def score_directly(way):
    """Scores the study by single requests into the workdir D."""
    with api_server.running() as server:
        asks = ("--scorer=api", f"--server={server.address}", f"--api_scores={way}")
        cli.run(["score", *STUDY, *asks, "--workdir=D"])


class Rows(list):
    """The methods of a dataset of Ray that the example calls, in this process."""

    def repartition(self, target_num_rows_per_block):
        return self

    def map(self, function):
        return Rows(map(function, self))

    def write_parquet(self, folder, min_rows_per_file):
        Path(folder).mkdir()
        parquet.write_table(pa.Table.from_pylist(self), Path(folder) / "part-0.parquet")


BEGIN = 1  # id of the beginning token


class Tokenizer:
    """A tokenizer with a chat template that begins with the beginning token."""

    @classmethod
    def from_pretrained(cls, model):
        assert model == "m"
        return cls()

    def apply_chat_template(self, messages, *, add_generation_prompt):
        assert add_generation_prompt
        return SimpleNamespace(input_ids=[BEGIN, *map(ord, messages[0]["content"])])


class OldTokenizer(Tokenizer):
    """Before version 5, transformers returned a list."""

    def apply_chat_template(self, messages, *, add_generation_prompt):
        found = super().apply_chat_template(messages, add_generation_prompt=add_generation_prompt)
        return found.input_ids


def place(token, log_prob):
    return {"logprob": log_prob, "rank": 1, "decoded_token": token}


def generate(row):
    """Adds the columns of vLLM's stage in Ray 2.60, as vLLMOutputData lists them."""
    sampling = row["sampling_params"]
    assert sampling["max_tokens"] == 1 and sampling["temperature"] == 0
    found = {"generated_text": "x", "logprobs": None, "prompt_logprobs": None}
    found |= {"prompt_token_ids": None, "__inference_error__": ""}
    if "prompt_logprobs" in sampling:
        body = {"prompt": row["prompt"], "prompt_logprobs": 0}
        places = api_server.answer("/v1/completions", body)["choices"][0]["prompt_logprobs"]
        listed = [p and {7: place(p["7"]["decoded_token"], p["7"]["logprob"])} for p in places]
        return row | found | {"prompt_logprobs": listed, "prompt_token_ids": [7] * len(listed)}
    begin, *text = row["tokenized_prompt"]
    assert begin == BEGIN and text[0] != BEGIN and sampling["logprobs"] == 20
    tops = api_server.first_tokens("".join(map(chr, text)))
    first = {i: place(token, log_prob) for i, (token, log_prob) in enumerate(tops.items())}
    return row | found | {"logprobs": [first]}


def run_with_vllm(monkeypatch, engine=generate, tokenizer=Tokenizer):
    """Runs the example with modules in place of Ray and vLLM."""
    configs = []

    def build_processor(config, preprocess):
        configs.append(config)
        return lambda rows: Rows(engine(row | preprocess(row)) for row in rows)

    def read_parquet(path):
        return Rows(parquet.read_table(path).to_pylist())

    monkeypatch.setitem(
        sys.modules, "ray", SimpleNamespace(data=SimpleNamespace(read_parquet=read_parquet))
    )
    llm = SimpleNamespace(build_processor=build_processor, vLLMEngineProcessorConfig=dict)
    monkeypatch.setitem(sys.modules, "ray.data.llm", llm)
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoTokenizer=tokenizer))
    path = str(EXAMPLES / "ray_scoring.py")
    words = [path, "W/requests/requests-00000.parquet", "answers", "m"]
    monkeypatch.setattr(sys, "argv", [*words, '--engine-kwargs={"max_model_len": 512}'])
    runpy.run_path(path, run_name="__main__")
    (config,) = configs
    return config


@pytest.mark.parametrize("tokenizer", [Tokenizer, OldTokenizer])
def test_first_tokens_of_vllm_are_those_of_a_server(monkeypatch, tokenizer):
    cli.run(["requests", *STUDY, "--workdir=W", "--form=ray"])
    config = run_with_vllm(monkeypatch, tokenizer=tokenizer)
    # A template's stage and a tokenizer's stage of Ray give two beginning tokens.
    assert not (config["chat_template_stage"] or config["tokenize_stage"])
    assert config["engine_kwargs"] == {"max_model_len": 512} and config["model_source"] == "m"
    cli.run(["answers", "W", "answers"])
    score_directly("chat")
    equal(scores("W"), scores("D"))


def test_whole_labels_of_vllm_are_those_of_a_server(monkeypatch):
    cli.run(["requests", *STUDY, "--workdir=W", "--form=ray", "--api_scores=prompt_logprobs"])
    run_with_vllm(monkeypatch)
    cli.run(["answers", "W", "answers"])
    score_directly("prompt_logprobs")
    equal(scores("W"), scores("D"))


def test_a_refused_prompt_is_final_and_a_failed_one_is_asked_again(monkeypatch, capsys):
    seen = []

    def fail(row):
        seen.append(row)
        kinds = {8: "ValueError: too long", 9: "VLLMValidationError: too long"}
        kinds |= {10: "RuntimeError: no memory", 11: "TimeoutError: "}
        error = kinds.get(len(seen), "")
        # Ray gives the columns of a failed row their defaults.
        gaps = {"generated_text": "", "logprobs": None, "prompt_logprobs": None}
        return row | gaps | {"__inference_error__": error} if error else generate(row)

    cli.run(["requests", *STUDY, "--workdir=W", "--form=ray"])
    run_with_vllm(monkeypatch, fail)
    with pytest.raises(SystemExit):
        cli.run(["answers", "W", "answers"])
    shown = capsys.readouterr().out
    assert "64 requests: 60 answered, 2 refused, 2 missing" in shown
    assert "ValueError: too long" in shown and "RuntimeError: no memory" in shown


@pytest.mark.slow
def test_a_stub_on_ray_gives_the_scores_of_a_server():
    cli.run(["requests", *STUDY, "--workdir=W", "--form=ray", "--shard-size=30"])
    stub = ("--engine=stub", f"--labels={','.join(api_server.LABELS)}")
    cwd = Path.cwd()
    python(EXAMPLES / "ray_scoring.py", "W/requests", "answers", "m", *stub, cwd=cwd, env=ENV)
    cli.run(["answers", "W", "answers"])
    score_directly("chat")
    equal(scores("W"), scores("D"), 1e-6)


ENV = {"PYTHONPATH": str(EXAMPLES.parent)}
LABELS = ["no", "maybe", "yes"]


def write(folder, probs, name="part"):
    """Writes log-probabilities with row ids."""
    Path(folder).mkdir(exist_ok=True)
    start = sum(parquet.read_metadata(path).num_rows for path in Path(folder).glob("*"))
    columns = {"id": np.arange(start, start + len(probs))}
    columns |= dict(zip(LABELS, probs.astype(np.float32).T, strict=True))
    parquet.write_table(pa.table(columns), Path(folder) / f"{name}.parquet")


def correct(source, target, code=0):
    words = (EXAMPLES / "ray_correction.py", source, target, *LABELS)
    return python(*words, cwd=Path.cwd(), env=ENV, code=code)


@pytest.mark.slow
def test_a_correction_on_ray_is_bc_of_all_rows():
    random = np.random.default_rng(0)
    for part in range(3):
        # Parts of different sizes and biases: their means must be weighted.
        shares = [1 + part, 2, 3]
        write("scores", np.log(random.dirichlet(shares, 70_000 - 30_000 * part)), f"part{part}")
    assert "120,000 rows, bias no: " in correct("scores", "corrected").stdout
    before, after = (parquet.read_table(folder).sort_by("id") for folder in ("scores", "corrected"))
    raw, found = (np.stack([t[name].to_numpy() for name in LABELS], 1) for t in (before, after))
    want = np.asarray(bc.calibrate(raw))
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found, raw - raw.mean(axis=0, dtype=np.float64), rtol=0, atol=1e-6)
    assert before["id"].equals(after["id"])
    for column, numbers in {"raw_prediction": raw, "prediction": want}.items():
        assert after[column].to_pylist() == [LABELS[i] for i in bc.predict(numbers)]


@pytest.mark.slow
def test_a_correction_on_ray_refuses_probabilities_gaps_and_a_used_folder():
    probs = np.random.default_rng(0).dirichlet([1, 2, 3], 2000)
    write("probs", probs)
    stderr = correct("probs", "corrected", code=1).stderr
    assert "take logarithms of probabilities" in stderr and "Traceback" not in stderr
    log_probs = np.log(probs)
    log_probs[1500, 1] = np.nan
    write("gaps", log_probs)
    assert "a batch of gaps" in correct("gaps", "corrected", code=1).stderr
    assert not Path("corrected").exists()
    Path("corrected").mkdir()
    assert "expected a new folder" in correct("probs", "corrected", code=1).stderr
