"""Responses of servers in every format that an importer reads."""

import math


def chat(**probs):
    tops = [{"token": t, "logprob": math.log(p), "bytes": None} for t, p in probs.items()]
    token_place = {"token": tops[0]["token"], "logprob": tops[0]["logprob"], "top_logprobs": tops}
    choice = {"index": 0, "message": {"content": "x"}, "logprobs": {"content": [token_place]}}
    return {"object": "chat.completion", "model": "m-1", "choices": [choice]}


def completion(**probs):
    top = {t: math.log(p) for t, p in probs.items()}
    first = next(iter(top))
    log_probs = {"tokens": [first], "token_logprobs": [top[first]], "top_logprobs": [top]}
    log_probs["text_offset"] = [9]
    return {"object": "text_completion", "choices": [{"text": first, "logprobs": log_probs}]}


def echoed(tokens, values, new=0):
    tops = [None] + [{"x": -1.0}] * (len(tokens) - 1)
    log_probs = {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops}
    log_probs["text_offset"] = [0] * len(tokens)
    choices = [{"text": "".join(tokens), "logprobs": log_probs}]
    usage = {"completion_tokens": new}
    return {"object": "text_completion", "choices": choices, "usage": usage}


def place(token_id, text, value, **rivals):
    rows = {str(token_id): {"logprob": value, "rank": 9, "decoded_token": text}}
    for label_text, (number, nats) in rivals.items():
        rows[str(number)] = {"logprob": nats, "rank": 1, "decoded_token": label_text}
    return rows


def prompted(places, **fields):
    return {"choices": [{"text": "", "logprobs": None, "prompt_logprobs": places, **fields}]}


def generated(top, fixed=None):
    meta = {"output_token_logprobs": [top[0]], "output_top_logprobs": [top]}
    meta |= {"output_token_ids_logprobs": [fixed]} if fixed else {}
    return {"text": "x", "meta_info": meta}


def llama(**probs):
    tops = [{"id": 1, "token": t, "bytes": [], "logprob": math.log(p)} for t, p in probs.items()]
    return {"content": "x", "completion_probabilities": [{**tops[0], "top_logprobs": tops}]}


def old_llama(**probs):
    tops = [{"tok_str": t, "prob": p} for t, p in probs.items()]
    return {"content": "x", "completion_probabilities": [{"content": "x", "probs": tops}]}
