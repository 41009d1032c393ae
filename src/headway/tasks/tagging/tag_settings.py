"""The data settings of taggers."""

from dataclasses import dataclass

from headway.config.settings import setting
from headway.metrics.spans import BIO, BIOES, PLAIN

LEAST_LENGTH = 32  # so that the tokens of a word fit in


@dataclass(frozen=True)
class TagData:
    name: str | None = setting(
        None, "built-in data: python (what each token of the standard library is); none: your own files"
    )
    train: str | None = setting(None, "a file of words with tags, in columns (.conll) or rows (.jsonl, .parquet, .csv)")
    validation: str = setting("0.1", "a file, or the share of the training data to hold out")
    test: str = setting("0.1", "a file, or the share of the training data to hold out")
    text: str | None = setting(None, "column of the words, by its name or by its number from 1; none: detect it")
    label: str | None = setting(
        None, "column of the tags or spans, by its name or by its number; none: detect it, or the last one"
    )
    words: str | None = setting(
        None, "how a text without given words is split into words; none: python for built-in data, otherwise words"
    )
    scheme: str | None = setting(
        None, "scheme of the tags that are learned; none: as in the file", choices=(PLAIN, BIO, BIOES)
    )
    encoding: str = setting("utf-8", "encoding of the files")
    bad_rows: str = setting("stop", "what to do with sentences that are not well formed", choices=("stop", "skip"))
    normalize: str = setting("", "normalization steps applied to each text")
    tokenizer: str = setting("word", "how words are cut into tokens")
    vocab_size: int = setting(20_000, "maximum vocabulary size", least=1, most=10_000_000)
    min_count: int = setting(2, "minimum count of a token", least=1)
    max_length: int = setting(256, "maximum tokens at once; longer sentences are read in parts", least=LEAST_LENGTH)
