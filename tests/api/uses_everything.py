"""A script as a user writes it, with every public name: mypy --strict and pyright must find nothing wrong with it.

It is checked, not run; the examples in the docstrings are.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import headway as hw
from headway.sklearn import TextClassifier

texts: list[str] = ["a good film", "a bad film"]
labels: list[str] = ["positive", "negative"]


def brevity(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    return [-float(len(answer)) for answer in answers]


def agreement(targets: Sequence[str], predicted: Sequence[str]) -> float:
    return float(np.mean([one == other for one, other in zip(targets, predicted, strict=True)]))


def trained() -> hw.Model:
    model = hw.train("classify", data=(texts, labels), model={"layers": 2}, train={"epochs": 3})
    hw.train("classify", data="reviews.csv", validation=0.2, test="test.csv", metrics={"agreement": agreement})
    hw.train("classify", data={"train": "reviews.csv", "max_length": 100}, settings=["train.seed=3"], out="runs/mine")
    hw.train("translate", data=(Path("a.en"), Path("a.de")), progress=False)
    hw.train("ppo", start=model, data="prompts.jsonl", reward=brevity)
    hw.train("ppo", start=model.run, data="prompts.jsonl", reward=model)
    pretrained: hw.Model = hw.pretrain(data=texts)
    imported: hw.Model = hw.from_transformers("openai-community/gpt2")
    return hw.train("classify", start=pretrained or imported, data=[{"text": "a", "label": "b"}])


def loop() -> None:
    fit = hw.fit("parity", train={"steps": 600})
    for step in fit:
        number: int = step.number
        loss: float = step.loss
        print(number, loss)
    model = hw.load(fit.run.folder)
    print(model.metrics["random"]["accuracy"], model.parameters, model.labels, model.abilities, model.example)


def beside_simple_models(model: hw.Model) -> float | None:
    alone: hw.Baselines = hw.baseline("classify", data=(texts, labels), test=0.2)
    measured: hw.Baselines = hw.baseline(model, test="later.csv")
    better: bool | None = measured.network_is_better
    print(alone.table(), measured.verdict, better)
    return measured.best.metrics["test"]["accuracy"]


def use(model: hw.Model) -> None:
    one: hw.Prediction = model.predict("what a film")
    if isinstance(one, hw.Tagging):
        words: list[hw.TaggedWord] = one.words
        spans: list[hw.TaggedSpan] = one.spans
        print(words[0].label, spans[0].start)
    several: list[hw.Prediction] = model.predict(texts, batch_size=8)
    in_a_file: list[hw.Prediction] = model.predict(Path("new.csv"), settings={"data.text": "review"})
    streamed: hw.Prediction = next(model.predict_iter(iter(texts)))
    label: str | int | None = one.label
    probabilities: np.ndarray = model.probabilities(texts)
    vectors: np.ndarray = model.embed("a text")
    candidates: list[hw.Candidate] = model.fill("the [MASK] was good", top=3)[0]
    rewards: list[float] = model.rate("a prompt", ["an answer"])
    print(several, in_a_file, streamed, label, probabilities, vectors, candidates[0].token, rewards)


def write(model: hw.Model) -> None:
    text: str = model.generate("Call me", max_new_tokens=200, top_p=0.9)
    many: list[str] = model.generate(["a", "b"], temperature=0.5, stop="\n")
    for piece in model.stream("Call me"):
        print(piece, end="")
    hypotheses: list[hw.Hypothesis] = model.beam_search("Call me", num_beams=5, num_return_sequences=2)
    grouped: list[hw.Hypothesis] = model.beam_search(["Call me"])[0]
    best: hw.Completion = model.best_of(["a"], 4, brevity, top_k=10)[0]
    translation: str = model.translate("a man rides a horse")
    translations: list[str] = model.translate(["a man rides a horse"], num_beams=3)
    answer: str | None = model.ask("3 + 4 = ?", shots=[{"question": "1 + 1 = ?", "answer": "2"}], think=True).answer
    print(text, many, hypotheses[0].score, grouped, best.reward, translation, translations, answer)
    print(model.format_prompt("a"), model.doubts(["a"]))


def look(model: hw.Model) -> None:
    explanation = model.explain("what a film")
    explanation.save("explanation.html")
    model.attention("what a film").plot(layer=1).save("attention.png")
    model.align("a horse", "ein Pferd").plot().save("horse.png")
    model.beam_trees("a", widths=[2])[0].save("tree.svg")
    print(model.search_errors(3)[0].error_rate, model.senses("bank", texts).senses.silhouette)
    with hw.watch_attention(model.network) as maps:
        model.predict("a")
    print(explanation.label, maps.keys())


def measure(model: hw.Model) -> None:
    evaluations: hw.Evaluations = model.evaluate((texts, labels), int8=False)
    evaluation: hw.Evaluation = evaluations["data"]
    accuracy: float = evaluation["accuracy"]
    evaluations.plot_rewards().save("rewards.png")
    print(accuracy, evaluations.metrics, model.export("model", to="onnx").max_difference)
    run = hw.Run("runs/classify-1")
    again: hw.Model = run.resume()
    run.plot().save("curves.png")
    print(run.evaluate("later.csv"), run.load(), run.history()[0], again, run.next_command, run.abilities)


def overview() -> None:
    summary: hw.RecipeSummary = hw.list_recipes()[0]
    print(summary.about, hw.list_settings("parity")[0].key, hw.list_runs("runs")[0].folder, hw.is_run("parity"))
    print(hw.summarize("parity").parameters, hw.schedule("parity").rates, hw.survey_data("reviews.csv")["rows"])
    print(hw.check("parity")[0].good, hw.bleu(texts, texts)[0].score, hw.ngrams("cat")[0].bucket, hw.__version__)
    print(hw.register("train.metrics", agreement))
    plan: hw.Plan = hw.plan_processes("parity", processes=2)[0]
    lesson: hw.ParallelLesson = hw.explain_parallel("parity", processes=2)
    lesson.save("parallel.svg")
    print(plan.memory, plan.traffic, lesson.kinds[0].parts, lesson.neighbours[0].is_right)


def studies(model: hw.Model) -> None:
    comparison = hw.compare("parity", vary={"model.norm": ["pre", "post"]}, seeds=3)
    print(comparison.rows[0].variant, hw.search("parity", trials=3).front, hw.tame().failed)
    print(hw.adapt(model, (texts, labels)).overtaken(), hw.rlhf("rlhf-lab").pairs)
    print(hw.forgetting(model, "texts.jsonl", replay=[0, 0.1]).gain_table(), hw.repeat("language", texts).rows[0].score)
    plan = hw.plan_mixture({"en": 1e9, "sw": 1e7}, tokens=1e9)
    print(plan.epoch_table(), plan.shares["uniform"])
    print(hw.gradient_reach(["parity"]).norms, hw.search_written_tree("exam.json")[0].best)


def words(model: hw.Model) -> None:
    vectors: hw.WordVectors = hw.load_vectors("glove.txt")
    print(vectors.nearest("king")[0].word, vectors.analogy("man", "king", "woman"), vectors.similarity("ship", "boat"))
    print(vectors.evaluate("pairs.txt").similarity, vectors.map("map.html"), model.vectors.vector("ship"))
    vectors.save("vectors.txt", to="glove")


def tokenizers() -> None:
    by_language = {"en": ["a cat"], "de": ["eine Katze"]}
    made = hw.train_tokenizer(by_language, kind="byte")
    print(hw.report_tokenizer(made, by_language, same="line").languages["de"].parity)
    print(hw.compare_tokenizers([made, "tokenizer.json"], by_language).table())


def estimator() -> None:
    classifier = TextClassifier(model={"layers": 1}).fit(texts, labels)
    print(classifier.predict(texts), classifier.predict_proba(texts))


def main() -> None:
    try:
        model = trained()
    except hw.Interrupted as stop:
        print(stop.folder)
    except hw.Problem as problem:
        print(problem)
    else:
        for function in (use, write, look, measure, studies, words):
            function(model)
