#!/usr/bin/env python3
"""Writes tests/data/tiny.gguf, tests/data/tiny_gguf.json and tests/data/tokenizer_lines.json.

tiny.gguf: a small byte-level BPE vocabulary (trained here), metadata of every kind and one tensor of every type that
fp8rl decodes; tiny_gguf.json: the floats that the gguf package makes of them. tokenizer_lines.json: 2,000 generated
lines of mixed text and, per line, a hash of the ids that the `tokenizers` library gives for them, with the tiny
vocabulary under each pre-tokenizer and with SmolLM2's own vocabulary.

Usage: pip install tokenizers gguf numpy; scripts/get_smollm2.sh; scripts/make_tokenizer_goldens.py
"""
import json
import pathlib
import random

import gguf
import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests/data"
SMOLLM2 = ROOT / "models/SmolLM2-135M-Instruct.gguf"

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER_DEFINED = ["<tool>"]

# ---------------------------------------------------------------- text
WORDS = {
    "english": "the of and a to in is you that it he was for on are as with his they I at be this have from or one had by "
               "word but not what all were we when your can said there use an each which she do how their if will up other "
               "about out many then them these so some her would make like him into time has look two more write go see "
               "don't it's we've I'm they'll SHE'D can'T you're o'clock naïve café résumé".split(),
    "code": "def return self import for(int i=0;i<n;++i) std::vector<float> x[i]+=1; #include <cstdint> if(x!=y){ } /* c */ // n "
            "lambda x:x**2 print(f\"{a}\") assert(a==b) const&auto foo_bar fooBar FOO_BAR 0x1F 1e-6 a->b && || != :: ... <<= "
            "</div> <a href=\"u\"> SELECT * FROM t; \\n \\\\ $PATH ${x} @decorator `x` ~/dir/file.txt http://a.b/c?d=e&f".split(),
    "digits": "0 1 7 42 100 999 1234 12345 3.14159 1,000,000 2024-11-30 12:34:56 +49-30-1234567 50% $9.99 ½ ² ³ Ⅷ ① ٣٤٥ १२३ １２".split(),
    "emoji": "😀 😂🤣 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️ ☺ 🤷‍♀️ 🧑🏿‍🚀 🙂🙃 ✨ 🔥🔥🔥 ©️ ™".split(),
    "arabic": "السلام عليكم ما هو ناتج ٧×٦ مرحبا بالعالم كَتَبَ العربيّة لا إله ، ؟".split(),
    "chinese": "你好 世界 我们今天学习数学 中文，标点。 「引号」 一二三 龍 𠮷野家 ・ ！".split(),
    "others": "привет мир Ёлка καλημέρα κόσμε こんにちは カタカナ 한국어 안녕하세요 שלום नमस्ते दुनिया สวัสดี Straße Ørsted İstanbul "
              "e\u0301te\u0301 n\u0303 A\u030a \ufb01 \u1e9e ǆ \U00010400 \U0001d54f \u212b".split(),
    "punctuation": "! ? . , ; : ... --- !!! ?! ()[]{} \"quoted\" 'single' “curly” ‘’ — – • § ¿ ¡ ′ '' '' 's 'S 'll".split(),
    "odd": ["\u200b", "\ufeff", "\u00ad", "\x00", "\x04", "\x1b[0m", "\x7f", "\ufffd", "\U000f0000", "\u180e", "\x85", "\u2028", "\u0378"],
    "special": ["<|im_start|>user", "<|im_end|>", "<|endoftext|>", "<tool>", "<|im_start|", "<|im_end|><|im_end|>", "<|unknown|>"],
}
SEPARATORS = ([" "] * 30 + ["", "", "", "  ", "   ", "    ", "        ", "\t", "\t\t", " \t ", "\n", "\n\n", "\r\n", "\r\n\r\n",
              " \n", "\n ", "\u00a0", "\u3000", "\u2003 ", " \u2009", "\r", "\x0b", "\x0c", " " * 33])


def lines():
    rng = random.Random(20261130)
    kinds = list(WORDS)
    out = []
    for i in range(2000):
        if i % 4 == 0:  # everything mixed
            pool = [w for k in kinds for w in WORDS[k]]
        else:
            pool = WORDS[kinds[rng.randrange(len(kinds) - 2 if i % 4 != 1 else len(kinds))]] + WORDS["english"][:12]
        text = ""
        for _ in range(rng.randrange(1, 14)):
            text += pool[rng.randrange(len(pool))]
            text += SEPARATORS[rng.randrange(len(SEPARATORS))] if i % 5 else " "
        out.append(text)
    out[0] = ""
    out[1] = " "
    out[2] = " " * 200
    out[3] = "\n\n\n \n\t"
    return out


# ---------------------------------------------------------------- tokenizers
def reference(vocabulary, merges, specials, user_defined, pre):
    """A `tokenizers` tokenizer as the published tokenizer.json files of these families set it up."""
    t = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=pre == "llama-bpe"))
    if pre == "gpt-2":
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif pre == "smollm":
        t.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    else:
        pattern = Regex(LLAMA3 if pre == "llama-bpe" else QWEN2)
        t.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(pattern, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        if pre == "qwen2":
            t.normalizer = normalizers.NFC()
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    t.add_tokens([AddedToken(s, special=False, normalized=False) for s in user_defined])
    return t


def fnv1a(ids):
    h = 0xCBF29CE484222325
    for i in ids:
        for b in int(i).to_bytes(4, "little"):
            h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def hashes(tokenizer, texts):
    """Per line: special tokens split out, and special tokens read as text ("" when that makes no difference)."""
    result = {}
    for key, as_text in (("special", False), ("plain", True)):
        tokenizer.encode_special_tokens = as_text
        result[key] = [fnv1a(tokenizer.encode(s, add_special_tokens=False).ids) for s in texts]
    result["plain"] = ["" if p == s else p for p, s in zip(result["plain"], result["special"])]
    return result


# ---------------------------------------------------------------- the tiny file
def train(texts):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=700, special_tokens=SPECIALS + USER_DEFINED, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    state = json.loads(t.to_str())["model"]
    vocabulary = dict(sorted(state["vocab"].items(), key=lambda kv: kv[1]))
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in state["merges"]]
    return vocabulary, merges


def write_tiny(vocabulary, merges):
    rng = np.random.default_rng(7)
    w = gguf.GGUFWriter(str(DATA / "tiny.gguf"), "llama")
    w.add_block_count(1)
    w.add_uint8("test.u8", 200)
    w.add_int8("test.i8", -100)
    w.add_uint16("test.u16", 60000)
    w.add_int16("test.i16", -30000)
    w.add_uint32("test.u32", 4000000000)
    w.add_int32("test.i32", -2000000000)
    w.add_float32("test.f32", 1e-5)
    w.add_uint64("test.u64", 1 << 60)
    w.add_int64("test.i64", -(1 << 60))
    w.add_float64("test.f64", 0.1)
    w.add_bool("test.bool", True)
    w.add_string("test.string", "grüße\n")
    w.add_array("test.strings", ["a", "", "ü"])
    w.add_array("test.integers", [1, -2, 3])
    w.add_array("test.floats", [0.5, -1.25])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(list(vocabulary))
    w.add_token_types([3 if s in SPECIALS else 4 if s in USER_DEFINED else 1 for s in vocabulary])
    w.add_token_merges([" ".join(m) for m in merges])
    w.add_bos_token_id(vocabulary["<|im_start|>"])
    w.add_eos_token_id(vocabulary["<|endoftext|>"])
    w.add_pad_token_id(vocabulary["<|endoftext|>"])
    w.add_add_bos_token(False)
    w.add_chat_template("{% for m in messages %}{{ m.role + ': ' + m.content }}\n{% endfor %}")
    goldens = {}
    Q = gguf.GGMLQuantizationType
    for q in (Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q6_K, Q.Q5_0):
        name = f"tensor.{q.name.lower()}"
        if q == Q.Q6_K:  # the package only decodes this one: any bytes are a valid block, but for the scale
            raw = rng.integers(0, 256, (2, 2, 210), dtype=np.uint8)
            raw[:, :, 208:] = (rng.standard_normal((2, 2)) * 0.01).astype(np.float16).view(np.uint8).reshape(2, 2, 2)
            raw = raw.reshape(2, 420)
        else:
            x = (rng.standard_normal((3, 96)) * 0.3).astype(np.float32)
            x[0, :4] = [0.0, -0.0, 1e-7, 60000.0 if q == Q.F16 else 2.0]
            x[2, 32:64] = 0.0
            raw = gguf.quants.quantize(x, q)
        w.add_tensor(name, raw, raw_dtype=q)
        values = gguf.quants.dequantize(raw, q).astype(np.float32)
        goldens[name] = {"shape": list(values.shape), "bits": values.view(np.uint32).ravel().tolist()}
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    del goldens["tensor.q5_0"]  # listed, not decoded: fp8rl refuses it by name
    for g in goldens.values():
        g["bits"] = "".join(f"{b:08x}" for b in g["bits"])
    (DATA / "tiny_gguf.json").write_text(json.dumps(goldens, indent=1) + "\n")


def smollm2():
    fields = gguf.GGUFReader(str(SMOLLM2)).fields
    get = lambda key: fields[f"tokenizer.ggml.{key}"].contents()  # noqa: E731
    tokens, types = get("tokens"), get("token_type")
    vocabulary = {t: i for i, t in enumerate(tokens)}
    merges = [tuple(m.split(" ")) for m in get("merges")]
    return reference(vocabulary, merges, [t for t, k in zip(tokens, types) if k == 3], [], "smollm")


def main():
    texts = lines()
    vocabulary, merges = train(texts)
    write_tiny(vocabulary, merges)
    result = {"lines": texts, "tiny": {}}
    for pre in ("smollm", "gpt-2", "llama-bpe", "qwen2"):
        t = reference(vocabulary, merges, SPECIALS, USER_DEFINED, pre)
        result["tiny"][pre] = hashes(t, texts)
    result["smollm2"] = hashes(smollm2(), texts)
    (DATA / "tokenizer_lines.json").write_text(json.dumps(result, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
