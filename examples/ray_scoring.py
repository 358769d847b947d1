"""Scores files of requests with vLLM on a Ray cluster, for `batch-calibration answers`.

    batch-calibration requests --form=ray --model=MODEL --workdir=W
    python examples/ray_scoring.py W/requests answers MODEL
    batch-calibration answers W answers

Needs `pip install 'ray[data,llm]'` and GPUs; `--engine=stub --labels=A,B` invents scores on a CPU.
If a run stops, bring the files that it wrote: `requests --workdir=W` writes the other requests.
"""

import argparse
import json
import math
import zlib

import ray

flags = argparse.ArgumentParser()
for name in "requests", "out", "model":
    flags.add_argument(name)
flags.add_argument("--engine", default="vllm", choices=("vllm", "stub"))
flags.add_argument("--labels", default=" yes, no", help="tokens that the stub generates")
flags.add_argument("--engine-kwargs", default={}, type=json.loads, help="vLLM's, as JSON")
flags.add_argument("--replicas", default=1, type=int, help="number of vLLM engines")
args = flags.parse_args()


def vllm(requests):
    """Adds vLLM's columns: logprobs, prompt_logprobs and others, and __inference_error__."""
    from ray.data.llm import build_processor, vLLMEngineProcessorConfig
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(args.model)

    def tokenize(row):
        if "messages" not in row:
            return {}  # vLLM tokenizes a prompt as its server does.
        # Ray's stages would put a second beginning token before the chat template's.
        chat = tokenizer.apply_chat_template([*row["messages"]], add_generation_prompt=True)
        return {"tokenized_prompt": [*getattr(chat, "input_ids", chat)]}

    stages = dict.fromkeys(("chat_template_stage", "tokenize_stage", "detokenize_stage"), False)
    config = vLLMEngineProcessorConfig(
        **stages, model_source=args.model, engine_kwargs=args.engine_kwargs,
        concurrency=args.replicas, batch_size=128, should_continue_on_error=True,
    )  # fmt: skip
    return build_processor(config, preprocess=tokenize)(requests)


def stub(row):
    """Invents the log-probabilities of first tokens, as a function of the prompt."""
    text = row["prompt"] if "prompt" in row else row["messages"][-1]["content"]
    tokens = (*args.labels.split(","), " the", "\n")
    nats = [-0.01 - zlib.crc32(f"{text}|{token}".encode()) % 1000 / 200 for token in tokens]
    total = math.log(sum(map(math.exp, nats))) + 0.1
    first = {}
    for token_id, (log_prob, token) in enumerate(zip(nats, tokens, strict=True)):
        first[token_id] = {"logprob": log_prob - total, "decoded_token": token}
    return row | {"generated_text": "", "logprobs": [first]}


def answer(row):
    """Returns the id of a request and its answer, in JSON."""
    if error := row.get("__inference_error__"):
        # vLLM refuses a prompt with one of these; after another error the request may succeed.
        is_refusal = error.startswith(("ValueError", "VLLMValidationError", "VLLMClientError"))
        body = {"error": {"message": error, "code": 400 if is_refusal else 500}}
    elif row.get("prompt_logprobs") is not None:
        body = {name: row[name] for name in ("prompt_logprobs", "prompt_token_ids")}
    else:
        body = {"outputs": [{"text": row["generated_text"], "logprobs": row["logprobs"]}]}
    # Ray turns lists into arrays.
    return {"custom_id": row["custom_id"], "answer": json.dumps(body, default=lambda x: x.tolist())}


# Each engine works on several blocks at once; a file of answers is written as soon as it is full.
requests = ray.data.read_parquet(args.requests).repartition(target_num_rows_per_block=128)
scored = vllm(requests) if args.engine == "vllm" else requests.map(stub)
scored.map(answer).write_parquet(args.out, min_rows_per_file=10_000)
