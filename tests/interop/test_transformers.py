"""Weights of other libraries, in and out: the same logits, both ways, for small models made on the spot."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import headway as hw
from conftest import Outcome, shake, write_reviews
from headway.config.errors import Problem
from headway.generation import Beam, Sampling, beam_search, sample
from headway.interop.families import FAMILIES
from headway.interop.from_transformers import verify
from headway.interop.weights import export_weights, import_weights
from headway.nn.packing import Packing
from headway.runs.run import Run
from headway.training import checkpoint
from torture.harness import limits

Headway = Callable[..., Outcome]
SIZE = 40
TWICE = ("lm_head.weight", "decoder.weight", "decoder.bias", "embed_tokens.weight")


def gpt2(**changes: Any) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes: dict[str, Any] = {"n_positions": 20, "n_embd": 16, "n_layer": 2, "n_head": 4}
    return GPT2LMHeadModel(GPT2Config(**{"vocab_size": SIZE} | sizes | changes))


def bert(**changes: Any) -> Any:
    from transformers import BertConfig, BertForMaskedLM

    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 24, "max_position_embeddings": 20}
    return BertForMaskedLM(BertConfig(**{"vocab_size": SIZE} | sizes | changes))


def roberta(**changes: Any) -> Any:
    from transformers import RobertaConfig, RobertaForMaskedLM

    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 24, "max_position_embeddings": 22}
    return RobertaForMaskedLM(RobertaConfig(**{"vocab_size": SIZE} | sizes | changes))


def llama(**changes: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "intermediate_size": 24}
    return LlamaForCausalLM(LlamaConfig(**{"vocab_size": SIZE} | sizes | changes))


def marian(**changes: Any) -> Any:
    from transformers import MarianConfig, MarianMTModel

    sizes: dict[str, Any] = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "max_position_embeddings": 30}
    sizes |= {
        f"{side}_{key}": size
        for side in ("encoder", "decoder")
        for key, size in [("attention_heads", 4), ("ffn_dim", 24)]
    }
    ids = {"pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 3, "forced_eos_token_id": None}
    return MarianMTModel(MarianConfig(**{"vocab_size": SIZE} | sizes | ids | changes))


def t5(**changes: Any) -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    sizes: dict[str, Any] = {
        "d_model": 16,
        "d_kv": 4,
        "num_heads": 4,
        "d_ff": 24,
        "num_layers": 2,
        "num_decoder_layers": 1,
    }
    ids = {"pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 3}
    return T5ForConditionalGeneration(T5Config(**{"vocab_size": SIZE} | sizes | ids | changes))


CASES: dict[str, Callable[[], Any]] = {
    "gpt2": gpt2,
    "gpt2, other activation and size": lambda: gpt2(activation_function="relu", n_inner=20, layer_norm_epsilon=1e-3),
    "bert": bert,
    "bert, relu": lambda: bert(hidden_act="relu", layer_norm_eps=1e-5),
    "roberta": roberta,
    "llama": llama,
    "llama, tied, all heads": lambda: llama(tie_word_embeddings=True, num_key_value_heads=4),
    "llama, other turns, biases": lambda: llama(rope_theta=500.0, attention_bias=True, mlp_bias=True),
    "marian": marian,
    "marian, scaled, swish": lambda: marian(scale_embedding=True, activation_function="swish"),
    "t5": t5,
    "t5, gated, own head": lambda: t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "t5, few buckets": lambda: t5(relative_attention_num_buckets=8, relative_attention_max_distance=12),
}


def shaken(theirs: Any) -> Any:
    """Random numbers in every tensor, also in those that are no parameters."""
    torch.manual_seed(0)
    shake(theirs)
    if hasattr(theirs, "final_logits_bias"):
        theirs.final_logits_bias.normal_()
    parts: list[Any] = list(theirs.modules())
    for module in parts:
        if hasattr(module, "create_weight"):  # sinusoids, not learned
            module.weight.data.copy_(module.create_weight())
    return theirs


def tensors_of(theirs: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in theirs.state_dict().items()}


@torch.no_grad()
def logits_of(theirs: Any, tokens: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
    if theirs.config.is_encoder_decoder:
        return theirs(input_ids=tokens, decoder_input_ids=written).logits
    return theirs(input_ids=tokens).logits


@torch.no_grad()
def our_logits(model: Any, kind: str, tokens: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
    if kind in ("marian", "t5"):
        return model(tokens, written)
    if kind in ("bert", "roberta"):
        return model.head(model.encoder(tokens))
    return model(tokens)


@pytest.mark.parametrize("name", CASES)
def test_the_same_logits_in_and_out(name: str) -> None:
    theirs = shaken(CASES[name]())
    config, kind = theirs.config.to_dict(), theirs.config.model_type
    tokens, written = torch.randint(4, SIZE, (3, 15)), torch.randint(4, SIZE, (3, 11))
    expected = logits_of(theirs, tokens, written)
    imported = import_weights(config, tensors_of(theirs))
    found = our_logits(imported.model, kind, tokens, written)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert expected.std() > 0.05
    again = type(theirs)(theirs.config).eval()
    _, unexpected = again.load_state_dict(export_weights(config, imported.model), strict=False)
    assert not unexpected
    again.tie_weights()
    torch.testing.assert_close(logits_of(again, tokens, written), expected, atol=1e-4, rtol=1e-4)
    for unused in imported.unused:  # nothing is lost but duplicates, and what follows from the rest
        assert unused.endswith(
            ("lm_head.weight", "decoder.weight", "decoder.bias", "embed_tokens.weight", "positions.weight")
        )


@pytest.mark.parametrize("make", [bert, roberta, lambda: t5(d_model=24, d_kv=6)])
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_weights_in_half_precision_are_only_read_in_it(make: Callable[[], Any], half: torch.dtype) -> None:
    """What is added up or scaled on the way, such as T5's queries by the root of 6, is so in full precision."""
    theirs = shaken(make())
    config, tensors = theirs.config.to_dict(), {name: tensor.to(half) for name, tensor in tensors_of(theirs).items()}
    in_full = import_weights(config, {name: tensor.float() for name, tensor in tensors.items()})
    found = import_weights(config, tensors).model.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in in_full.model.state_dict().items())


def test_every_family_is_tested() -> None:
    assert {name.split(",")[0] for name in CASES} == set(FAMILIES)


def test_an_import_that_fails_leaves_no_run_without_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        assert not (tmp_path / "run").exists()
        raise Problem("no space left")

    save(gpt2(vocab_size=280), tmp_path / "gpt2")
    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(Problem, match="no space"):
        hw.from_transformers(tmp_path / "gpt2", out=tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["gpt2"]


def test_what_is_imported_writes_the_same() -> None:
    prompt = torch.randint(4, SIZE, (2, 5))
    for make in (gpt2, llama):
        theirs = shaken(make())
        imported: Any = import_weights(theirs.config.to_dict(), tensors_of(theirs)).model
        how: Any = {"max_new_tokens": 9, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        expected = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **how)[:, 5:]
        with torch.inference_mode():
            found = torch.stack(list(sample(imported, prompt.tolist(), 9, Sampling(0.0))), dim=1)
        assert found.tolist() == expected.tolist()
    for make in (marian, t5):
        theirs = shaken(make())
        if make is marian:
            theirs.final_logits_bias[0, 0] = -1e9  # it never writes padding
        imported = import_weights(theirs.config.to_dict(), tensors_of(theirs)).model
        how = {"max_new_tokens": 8, "num_beams": 3, "do_sample": False, "length_penalty": 1.0, "early_stopping": True}
        expected = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **how, bad_words_ids=None)
        with torch.inference_mode():
            rows = beam_search(imported.conditioned_on(prompt), [[0], [0]], 8, 3, Beam(3))
        for row, best in zip(expected.tolist(), rows, strict=True):
            tokens = row[1:]
            tokens = tokens[: tokens.index(3)] if 3 in tokens else tokens
            assert best[0].tokens == tokens


def test_a_masked_model_reads_rows_of_sequences() -> None:
    theirs = shaken(bert())
    imported: Any = import_weights(theirs.config.to_dict(), tensors_of(theirs)).model
    tokens = torch.randint(4, SIZE, (1, 12))
    places = torch.tensor([2, 9])
    found = imported(tokens, Packing.of(torch.tensor([7, 5])), places)
    alone = [logits_of(theirs, tokens[:, first:end], tokens)[0] for first, end in ((0, 7), (7, 12))]
    torch.testing.assert_close(found, torch.stack([alone[0][2], alone[1][2]]), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (gpt2, {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True has no counterpart"),
        (gpt2, {"activation_function": "mish"}, "the activation 'mish' has no counterpart"),
        (t5, {"d_kv": 8}, "d_kv=8 has no counterpart"),
        (t5, {"feed_forward_proj": "gated-silu"}, "gated-silu"),
        (llama, {"hidden_act": "gelu"}, "hidden_act='gelu' has no counterpart"),
    ],
)
def test_what_has_no_counterpart_is_refused(make: Callable[..., Any], changes: dict[str, Any], message: str) -> None:
    theirs = make(**changes)
    with pytest.raises(Problem, match=message):
        import_weights(theirs.config.to_dict(), tensors_of(theirs))


def test_odd_files_are_refused() -> None:
    theirs = gpt2()
    config, tensors = theirs.config.to_dict(), tensors_of(theirs)
    with pytest.raises(Problem, match="unknown model type 'gtp2'; did you mean 'gpt2'"):
        import_weights(config | {"model_type": "gtp2"}, tensors)
    with pytest.raises(Problem, match=r"1 tensors of a gpt2 are missing, the first is transformer\.wte\.weight"):
        import_weights(config, {name: tensor for name, tensor in tensors.items() if name != "transformer.wte.weight"})
    with pytest.raises(Problem, match=r"has shape \(40, 16\), but config.json says \(41, 16\)"):
        import_weights(config | {"vocab_size": 41}, tensors)
    with pytest.raises(Problem, match="lacks 'n_layer'"):
        import_weights({key: value for key, value in config.items() if key != "n_layer"}, tensors)


# --- folders


def save(theirs: Any, folder: Path, **symbols: str) -> Path:
    """As the transformers library does, with a tokenizer learned here."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE(unk_token=symbols.get("unk_token")))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = list(dict.fromkeys(symbols.values()))
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(["the film was great and the plot was fine"] * 9, trainer)
    PreTrainedTokenizerFast(tokenizer_object=core, **symbols).save_pretrained(folder)
    shaken(theirs).save_pretrained(folder)
    return folder


def larger(make: Callable[..., Any], **sizes: Any) -> Any:
    """With more tokens than a tokenizer of bytes has."""
    return make(vocab_size=310, **sizes)


FOLDERS: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "gpt2": (gpt2, {"eos_token": "<|end|>"}),
    "llama": (llama, {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}),
    "bert": (
        bert,
        {
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        },
    ),
    "roberta": (
        roberta,
        {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"},
    ),
    "marian": (marian, {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}),
    "t5": (t5, {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_becomes_a_run_that_works(
    name: str, headway: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, symbols = FOLDERS[name]
    theirs = larger(make, **{"gpt2": {"n_positions": 64}, "t5": {}}.get(name, {"max_position_embeddings": 66}))
    save(theirs, tmp_path / "theirs", **symbols)
    found = headway("import", "theirs", "--out", "runs/imported")
    assert found.code == 0, found.err
    assert "differ from the original's by at most" in found.out
    run = "runs/imported"
    text = "the film was"
    verb = {"bert": "fill", "roberta": "fill", "marian": "translate", "t5": "translate"}.get(name, "generate")
    more = ["--max-new-tokens", "5"] if verb == "generate" else []
    assert headway(verb, run, text + (" [MASK] fine" if verb == "fill" else ""), *more).code == 0
    exported = headway("export", run, "--out", "back")
    assert exported.code == 0, exported.err
    assert f"a {name.replace('roberta', 'bert')} in back" in exported.out
    again = type(theirs).from_pretrained("back") if name != "roberta" else None
    if again is not None:
        tokens, written = torch.randint(4, 250, (2, 15)), torch.randint(4, 250, (2, 9))
        size = again.config.vocab_size
        expected = logits_of(theirs.eval(), tokens, written)[..., :size]
        torch.testing.assert_close(logits_of(again.eval(), tokens, written), expected, atol=1e-4, rtol=1e-4)
    assert "already exists" in headway("export", run, "--out", "back").err
    write_reviews(tmp_path / "reviews.csv")
    overrides = ["train.steps=3", "train.warmup=1", "train.evaluate_every=3", "data.max_length=40"]
    tuned = headway("train", "classify", f"start={run}", "data.train=reviews.csv", *overrides)
    assert tuned.code == 0, tuned.err
    assert "encoder.embedding" in tuned.out


def test_folders_that_cannot_be_read(headway: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(larger(gpt2), tmp_path / "good", eos_token="<|end|>")
    for name, spoil, message in (
        ("empty", lambda folder: [path.unlink() for path in folder.iterdir()], "config.json cannot be read"),
        ("pickle", lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "is a pickle"),
        ("without", lambda folder: (folder / "model.safetensors").unlink(), "has no *.safetensors"),
        ("cut", lambda folder: (folder / "model.safetensors").write_bytes(b"abc"), "its weights cannot be read"),
        ("tokens", lambda folder: (folder / "tokenizer.json").unlink(), "has no tokenizer.json"),
        ("mess", lambda folder: (folder / "tokenizer.json").write_text("{"), "is not a tokenizer"),
    ):
        shutil.copytree(tmp_path / "good", tmp_path / name)
        spoil(tmp_path / name)
        found = headway("import", name)
        assert found.code == 2, name
        assert message in found.err
        assert found.err.count("\n") == 1
        assert not (tmp_path / "runs").exists()
    assert "there is no folder ./nowhere" in headway("import", "./nowhere").err


ODD: dict[str, list[tuple[str, Any]]] = {
    "gpt2": [("n_head", 0), ("n_embd", None), ("model_type", {}), ("model_type", []), ("n_layer", 10_000_000)],
    "llama": [("num_attention_heads", 0), ("hidden_size", "x"), ("rope_parameters", 5), ("rms_norm_eps", {})],
    "marian": [("d_model", -1), ("encoder_layers", 1.5), ("vocab_size", 10**30), ("architectures", 5)],
    "t5": [("num_heads", []), ("d_ff", 10_000_000), ("num_layers", True), ("relative_attention_num_buckets", 0)],
}


@pytest.mark.parametrize("name", ODD)
def test_configs_of_another_type_or_range_are_one_line(name: str, headway: Headway, tmp_path: Path) -> None:
    make, symbols = FOLDERS[name]
    folder = save(larger(make), tmp_path / name, **symbols)
    config = json.loads((folder / "config.json").read_text())
    for key, value in ODD[name]:
        (folder / "config.json").write_text(json.dumps(config | {key: value}))
        with limits(10, 2000):
            outcome = headway("import", str(folder))
        assert (outcome.code, outcome.err.count("\n")) == (2, 1), (key, value)
        assert not (tmp_path / "runs").exists()
    if name == "gpt2":
        assert "config.json says 10,000,000 layers, but there are only" in outcome.err


def test_a_model_that_is_not_the_same_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(larger(gpt2), tmp_path / "theirs", eos_token="<|end|>")
    config = json.loads((folder / "config.json").read_text())
    imported = import_weights(config, load_file(folder / "model.safetensors"))
    assert verify(folder, config, imported) < 1e-5
    with torch.no_grad():
        next(imported.model.parameters())[7, 3] += 0.5
    with pytest.raises(Problem, match=r"is not the same model: outputs differ by"):
        verify(folder, config, imported)


def test_a_run_of_ours_goes_out_and_one_that_does_not_fit_says_why(
    headway: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("the film was great and the plot was fine\n" * 200)
    small = ["data.train=texts.txt", "data.window=32", "data.vocab_size=300", "data.validation=0.1"]
    small += ["model.layers=1", "model.width=16", "model.heads=2", "train.steps=3", "train.warmup=1"]
    small += ["train.precision=fp32", "train.compile=nothing", "train.batch_size=4"]
    assert headway("train", "gpt2-small", *small, "--out", "runs/own").code == 0
    assert headway("export", "runs/own", "--out", "models/own").code == 0
    theirs, tokenizer = (kind.from_pretrained("models/own") for kind in (AutoModelForCausalLM, AutoTokenizer))
    run = Run("runs/own")
    task: Any = run.task
    tokens = task.tokenizer.encode(["the film was fine"])[0].tolist()
    assert tokenizer("the film was fine", add_special_tokens=False)["input_ids"] == tokens
    expected = run.model().cpu()(torch.tensor([tokens]))
    torch.testing.assert_close(theirs.eval()(torch.tensor([tokens])).logits, expected, atol=1e-4, rtol=1e-4)
    assert headway("train", "language", *small, "data.name=none", "--out", "runs/other").code == 0
    found = headway("export", "runs/other", "--out", "models/other")
    assert found.code == 2
    assert "the closest is" in found.err
    assert "model.position=" in found.err or "model.norm_kind=" in found.err
    assert not (tmp_path / "models" / "other").exists()


def greedy(folder: Path, prompt: str, size: int = 8) -> str:
    """What the transformers library writes with a folder, used as it comes."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    theirs: Any = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer(prompt, return_tensors="pt").input_ids
    written = theirs.generate(tokens, max_new_tokens=size, do_sample=False, pad_token_id=0)
    return str(tokenizer.decode(written[0, tokens.shape[1] :], skip_special_tokens=True))


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_an_imported_model_continues_a_prompt_as_the_original_does(name: str, own_folder: Path) -> None:
    make, symbols = FOLDERS[name]
    theirs = larger(make, **({"n_positions": 64} if name == "gpt2" else {"max_position_embeddings": 66}))
    save(theirs, own_folder / "theirs", **symbols)
    model = hw.from_transformers("theirs", out="run")
    for prompt in ("the film was", "great"):
        assert model.generate(prompt, max_new_tokens=8, temperature=0) == greedy(own_folder / "theirs", prompt)
    assert model.generate("", max_new_tokens=2, temperature=0) is not None
    with pytest.raises(Problem, match="has no results, because it was not trained to its end here"):
        _ = model.metrics


def test_an_exported_model_continues_a_prompt_as_the_run_does(own_folder: Path) -> None:
    """Its tokenizer puts the beginning of a text in front, as ours does."""
    texts = [f"the {thing} was {word} ." for thing in ("plot", "music", "cast") for word in ("good", "dull", "fine")]
    data = {"train": texts * 3, "vocab_size": 300, "window": 32, "validation": 0.2}
    model = {"layers": 1, "width": 16, "heads": 2}
    plain = {"precision": "fp32", "compile": "nothing", "batch_size": 4, "steps": 30, "warmup": 1}
    ours = hw.train("gpt2-small", data=data, model=model, train=plain, out="run", progress=False)
    ours.export("theirs")
    for prompt in ("the plot", "the"):
        assert ours.generate(prompt, max_new_tokens=8, temperature=0) == greedy(own_folder / "theirs", prompt)
    again = hw.from_transformers("theirs", out="again")
    assert again.generate("the", max_new_tokens=8, temperature=0) == greedy(own_folder / "theirs", "the")


def test_a_classifier_of_the_other_library_is_not_taken_for_a_language_model(own_folder: Path) -> None:
    from transformers import GPT2Config, GPT2ForSequenceClassification

    config = GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=310, n_positions=32)
    save(GPT2ForSequenceClassification(config), own_folder / "theirs", eos_token="<|end|>")
    with pytest.raises(Problem, match="is a GPT2ForSequenceClassification: only"):
        hw.from_transformers("theirs")
