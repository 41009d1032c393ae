"""Work on files of any size: labels, translations or vectors for each text of a file, in a file."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from headway.api.progress import reporter
from headway.api.run import Run
from headway.api.settings import Settings
from headway.config.arguments import checked_methods
from headway.config.errors import Problem
from headway.data.chunks import Rows, count_rows, process
from headway.data.files import require_file
from headway.runs.pipeline import Reporter
from headway.tasks.abilities import Embeds, Predicts, Translates, need


class Processed(NamedTuple):
    out: Path
    texts: int
    reused: int  # of them, those that an earlier, interrupted call had done


@checked_methods
class Batching:
    """The part of a Model that works on files, as streams: results come in the order of the texts, and a call that was
    interrupted goes on where it was. Files are Parquet or JSON lines; texts are read from any format."""

    run: Run
    network: nn.Module
    predict_iter: Callable[..., Iterator[Any]]
    translate: Callable[..., Any]
    reading: Callable[..., Any]

    def predict_file(
        self, file: str | Path, out: str | Path, *, settings: Settings = (), progress: bool | Reporter | None = None
    ) -> Processed:
        """The label of each text of a file, and its probability. An empty text has none.

        >>> _ = Path("strings.txt").write_text("0110\\n0111\\n")
        >>> parity.predict_file("strings.txt", "labels.jsonl").texts
        2
        """
        need(self.run.task, Predicts)

        def work(texts: Sequence[str]) -> Rows:
            fields = ("text", "label", "probability")
            return [{name: getattr(each, name) for name in fields} for each in self.predict_iter(iter(texts))]

        return self.process_file("predict", Path(file), Path(out), work, settings, progress)

    def translate_file(
        self,
        file: str | Path,
        out: str | Path,
        *,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        to: str | None = None,
        engine: str = "headway",
        settings: Settings = (),
        progress: bool | Reporter | None = None,
    ) -> Processed:
        """The translation of each text of a file; of an empty text, an empty one.

        >>> _ = Path("numbers.txt").write_text("de three\\nen fünf\\n")
        >>> numbers.translate_file("numbers.txt", "translations.parquet").texts
        2
        """
        need(self.run.task, Translates)
        how: dict[str, Any] = {"num_beams": num_beams, "length_penalty": length_penalty, "to": to, "engine": engine}

        def work(texts: Sequence[str]) -> Rows:
            translations = self.translate(list(texts), **how, progress=False)
            return [
                {"text": text, "translation": translation}
                for text, translation in zip(texts, translations, strict=True)
            ]

        return self.process_file("translate", Path(file), Path(out), work, settings, progress, how)

    def embed_file(
        self, file: str | Path, out: str | Path, *, settings: Settings = (), progress: bool | Reporter | None = None
    ) -> Processed:
        """The vector of each text of a file, as ``embed`` makes it. A text without a known token has none.

        >>> _ = Path("strings.txt").write_text("0110\\n0111\\n")
        >>> parity.embed_file("strings.txt", "vectors.parquet").texts
        2
        """
        task = need(self.run.task, Embeds)

        def vectors(texts: list[str]) -> list[Any]:
            try:
                return list(task.embed(self.network, texts))
            except Problem:  # of one of them: which one, shows each alone
                return [None] if len(texts) == 1 else [vector for text in texts for vector in vectors([text])]

        def work(texts: Sequence[str]) -> Rows:
            written = [text for text in texts if text.strip()]
            found = iter(vectors(written) if written else ())
            own = (next(found) if text.strip() else None for text in texts)
            rows = zip(texts, own, strict=True)
            return [{"text": text, "vector": None if each is None else each.tolist()} for text, each in rows]

        return self.process_file("embed", Path(file), Path(out), work, settings, progress)

    def process_file(
        self,
        verb: str,
        file: Path,
        out: Path,
        work: Callable[[Sequence[str]], Rows],
        settings: Settings,
        progress: bool | Reporter | None,
        how: dict[str, Any] | None = None,
    ) -> Processed:
        if not file.is_dir():
            require_file(file)
        status = file.stat()
        identity = {
            **{"verb": verb, "how": how or {}, "settings": sorted(map(str, settings))},
            **{"run": str(self.run.folder.resolve()), "step": self.run.final_checkpoint().step},
            **{"file": str(file.resolve()), "size": status.st_size, "time": status.st_mtime_ns},
            "texts": count_rows(file),
        }
        with self.reading(settings), reporter(progress).reading() as show:
            texts, reused = process(self.run.task.texts_in(file), out, identity, work, show)
        return Processed(out, texts, reused)
