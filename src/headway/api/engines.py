"""Translations, and the engines that may make them."""

from collections.abc import Callable, Sequence
from typing import Any, Unpack, overload

from headway.api.prompts import TranslateOptions, as_list
from headway.api.run import Run
from headway.config.arguments import checked_methods
from headway.config.errors import Problem
from headway.generation import Sampling
from headway.interop.engines import HEADWAY, Opened, open_engine, translations
from headway.runs.pipeline import Reporter
from headway.tasks.abilities import Translates, need


@checked_methods
class Engines:
    """The part of a Model that may leave the work to another engine."""

    run: Run
    beam_search: Callable[..., Any]
    format_prompt: Callable[[str], str]

    def engine(self, name: str) -> Opened:
        """The export for another engine, opened; made first, if there is none. Its ``note`` says which one it is."""
        opened: dict[str, Opened] = self.__dict__.setdefault("opened_engines", {})
        if name not in opened:
            opened[name] = open_engine(self.run, name)
        return opened[name]

    def greedy_texts(
        self, engine: str, prompts: list[str], max_new_tokens: int, sampling: Sampling, stops: Sequence[str], int8: bool
    ) -> list[str]:
        """Continuations by another engine."""
        if sampling != Sampling(0.0) or stops or int8:
            raise Problem(
                f"engine={engine} writes the most likely tokens: set temperature=0, and no other filter, stop or int8"
            )
        opened = self.engine(engine)
        generator = opened.source.generator
        if generator is None or opened.source.translator is not None:
            raise Problem(f"{self.run.folder} translates: use translate (headway translate {self.run.folder} TEXT)")
        formatted = [self.format_prompt(prompt) for prompt in prompts]
        window = generator.window
        for prompt in formatted:
            size = len(opened.source.tokens_of(prompt))
            if window is not None and size + max_new_tokens > window:
                room = f"{size} tokens and {max_new_tokens} new ones"
                raise Problem(
                    f"{room} do not fit the window of {window}, which engine={engine} cannot move: ask for fewer"
                )
        texts = opened.engine.continue_greedily(formatted, max_new_tokens)
        return [text.removesuffix(generator.after) for text in texts]

    # --- translation

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, **options: Unpack[TranslateOptions]
    ) -> str: ...

    @overload
    def translate(self, texts: Sequence[str], **options: Unpack[TranslateOptions]) -> list[str]: ...

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        to: str | None = None,
        engine: str = HEADWAY,
        progress: bool | Reporter | None = None,
    ) -> str | list[str]:
        """The translation of a text, or of each of several texts; of an empty text, an empty one. ``to`` is the
        language to translate into, for a translator among many. The ``engine`` "ctranslate2" is fast on a CPU: an
        export is made when it is first asked for, and kept in the run.

        >>> isinstance(numbers.translate("de three hundred five"), str)
        True
        """
        need(self.run.task, Translates)
        options: Any = {"num_beams": num_beams, "length_penalty": length_penalty, "to": to, "progress": progress}
        listed = as_list(texts)
        if engine != HEADWAY:
            found = translations(self.engine(engine), listed, to, num_beams, length_penalty)
            return found[0] if isinstance(texts, str) else found
        best = [group[0].text if group else "" for group in self.beam_search(listed, **options)]
        return best[0] if isinstance(texts, str) else best
