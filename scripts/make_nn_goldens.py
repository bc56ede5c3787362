#!/usr/bin/env python3
"""Reference activations and gradients of three tiny decoders, made with Transformers on the CPU.

Writes tests/data/nn_goldens.safetensors (weights, logits, hidden states, gradients in float32) and
tests/data/nn_goldens.json (configs, tokens, and for every tensor the error that Transformers' own bfloat16
makes against its float32). The tests need only these two files.

    python3 -m venv v && v/bin/pip install numpy safetensors torch transformers
    v/bin/python scripts/make_nn_goldens.py tests/data
"""
import json
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

BASE = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=64, max_position_embeddings=128, rms_norm_eps=1e-5,
            rope_theta=10000.0, hidden_act="silu")
CASES = {
    "llama_tied": dict(BASE, model_type="llama", head_dim=8, tie_word_embeddings=True),
    "qwen3_untied": dict(BASE, model_type="qwen3", head_dim=16, tie_word_embeddings=False),
    "llama3_bias": dict(BASE, model_type="llama", head_dim=8, tie_word_embeddings=False, attention_bias=True,
                        rope_scaling=dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0,
                                          high_freq_factor=4.0, original_max_position_embeddings=32)),
    "qwen2_yarn": dict(BASE, model_type="qwen2", head_dim=8, tie_word_embeddings=True,
                       rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)),
}
LENGTHS = [37, 64, 19]


def build(config, generator):
    fields = {k: v for k, v in config.items() if k != "model_type"}
    # Transformers keeps theta with the scaling.
    if "rope_scaling" in fields:
        fields["rope_scaling"] = dict(fields["rope_scaling"], rope_theta=fields["rope_theta"])
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(config["model_type"], **fields),
                                             attn_implementation="eager", dtype=torch.float32)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() == 1:
                value = 0.1 * noise if name.endswith("bias") else 1 + 0.1 * noise
            else:
                value = noise * (0.5 if "embed" in name else 1.0) / p.shape[1] ** 0.5
            p.copy_(value.bfloat16().float())  # what bfloat16 holds exactly: only the arithmetic differs
    return model.eval()


def run(model, sequences, targets, dlogp, dentropy):
    model.zero_grad()
    out, at, loss = {"hidden": [], "logits": [], "logp": [], "entropy": []}, 0, 0
    for ids in sequences:
        n = len(ids)
        hidden = model.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        logits = model.lm_head(hidden)
        logp = torch.log_softmax(logits.float(), -1)
        token = logp.gather(1, targets[at:at + n, None])[:, 0]
        entropy = -(logp.exp() * logp).sum(-1)
        loss = loss + (token * dlogp[at:at + n]).sum() + (entropy * dentropy[at:at + n]).sum()
        for key, value in (("hidden", hidden), ("logits", logits), ("logp", token), ("entropy", entropy)):
            out[key].append(value.detach().float())
        at += n
    loss.backward()
    result = {k: torch.cat(v) for k, v in out.items()}
    result.update({"grad." + n: p.grad.detach().float() for n, p in model.named_parameters()})
    return result


def main():
    torch.set_num_threads(1)
    folder = sys.argv[1]
    tensors, cases = {}, {}
    for seed, (name, config) in enumerate(CASES.items()):
        g = torch.Generator().manual_seed(100 + seed)
        model = build(config, g)
        sequences = [torch.randint(0, config["vocab_size"], (n,), generator=g).tolist() for n in LENGTHS]
        rows = sum(LENGTHS)
        targets = torch.randint(0, config["vocab_size"], (rows,), generator=g)
        dlogp, dentropy = torch.randn(rows, generator=g), 0.3 * torch.randn(rows, generator=g)
        exact = run(model, sequences, targets, dlogp, dentropy)
        rounded = run(model.to(torch.bfloat16), sequences, targets, dlogp, dentropy)
        model.float()
        for key, p in model.named_parameters():
            tensors[f"{name}.weight.{key}"] = p.detach().bfloat16().contiguous()
        for key, value in exact.items():
            tensors[f"{name}.{key}"] = value.contiguous()
        cases[name] = dict(
            config=config, sequences=sequences, targets=targets.tolist(), dlogp=dlogp.tolist(),
            dentropy=dentropy.tolist(),
            bf16_error={k: float((rounded[k] - exact[k]).double().norm()) for k in exact},
            norm={k: float(exact[k].double().norm()) for k in exact})
    save_file(tensors, f"{folder}/nn_goldens.safetensors")
    with open(f"{folder}/nn_goldens.json", "w") as f:
        json.dump(dict(made_with=dict(torch=torch.__version__, transformers=transformers.__version__),
                       cases=cases), f)
        f.write("\n")


if __name__ == "__main__":
    main()
