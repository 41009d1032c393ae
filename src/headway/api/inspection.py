"""What goes on inside a trained model: which tokens mattered, who attends to whom, how a beam search runs."""

from collections.abc import Sequence

from torch import nn

from headway.api.progress import reporter
from headway.api.run import Run
from headway.config.arguments import at_least, checked_methods
from headway.lab.attention_maps import AttentionMaps, attention_maps
from headway.lab.beam_tree import BeamSearch, Node, SearchErrors, search_errors, search_run, visible
from headway.lab.cross_attention import Alignment, align
from headway.lab.explain import Explanation, explain
from headway.lab.senses import SenseStudy, study
from headway.metrics.table import Listing
from headway.runs.pipeline import Reporter

__all__ = ["Alignment", "AttentionMaps", "BeamSearch", "Explanation", "Inspecting", "Node", "SenseStudy", "visible"]


@checked_methods
class Inspecting:
    """The part of a Model that looks inside it."""

    run: Run
    network: nn.Module

    def explain(self, text: str) -> Explanation:
        """Which tokens mattered for the prediction: by gradient x input, and by attention. A notebook shows the text in
        colours; ``save`` writes them as a page.

        >>> [piece.text for piece in parity.explain("0110").pieces]
        ['0', '1', '1', '0']
        """
        return explain(self.run, text)

    def attention(self, text: str) -> AttentionMaps:
        """The attention weights of every layer and head on a text. A notebook shows them as pictures;
        ``plot().save("attention.png")`` writes one.

        >>> maps = parity.attention("0110")
        >>> [weights.shape for weights in maps.layers.values()]
        [(2, 4, 4)]
        """
        return attention_maps(self.run, text)

    def align(
        self, text: str, translation: str | None = None, *, layer: int | None = None, to: str | None = None
    ) -> Alignment:
        """The cross-attention between a text and its translation: the model's own, unless another is given. ``to`` is
        the language of the translation, for a translator among many.

        >>> len(numbers.align("de eighty one", "einundachtzig").source)
        5
        """
        return align(self.run, text, translation, layer, to)

    def beam_trees(
        self,
        prompt: str = "",
        *,
        widths: Sequence[int] = (),
        max_new_tokens: int = 8,
        best: int = 1,
        length_penalty: float = 1.0,
        groups: int = 1,
        diversity: float = 0.0,
        to: str | None = None,
    ) -> list[BeamSearch]:
        """Beam searches, recorded: which hypotheses were kept, dropped and finished, one search for each beam width.
        ``to`` is the language to translate into, for a translator among many.

        >>> (search,) = letters.beam_trees("ab", widths=[2], max_new_tokens=2)
        >>> {candidate.fate for candidate in search.candidates} <= {"kept", "dropped", "finished"}
        True
        """
        options = {"best": best, "length_penalty": length_penalty, "groups": groups, "diversity": diversity}
        return search_run(self.run, prompt, max_new_tokens, widths, to, **options)

    def search_errors(
        self,
        prompts: int,
        *,
        max_new_tokens: int = 4,
        widths: Sequence[int] = (),
        to: str | None = None,
        progress: bool | Reporter | None = None,
    ) -> Listing[SearchErrors]:
        """How often a beam search misses the most likely text, on held-out prompts.

        >>> letters.search_errors(2, max_new_tokens=2, widths=[1])[0].prompts
        2
        """
        at_least(1, prompts=prompts)
        with reporter(progress).reading() as show:
            return Listing(search_errors(self.run, prompts, max_new_tokens, widths, to, show))

    def senses(
        self,
        word: str,
        sentences: Sequence[str],
        *,
        layer: int | None = None,
        groups: int | None = None,
        remove: int = 1,
    ) -> SenseStudy:
        """How the contextual vectors of a word vary over the sentences it occurs in, and clusters of them. ``remove``
        is the number of principal components, shared by all words, that are removed first.

        >>> sentences = [f"the {thing} was not dull ." for thing in ("plot", "music", "cast", "story", "hero")]
        >>> len(masked.senses("dull", sentences, groups=2).members)
        2
        """
        at_least(1, groups=groups)
        at_least(0, remove=remove)
        return study(self.run, word, sentences, remove, layer, groups)
