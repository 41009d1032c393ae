"""Families: kinds of models in the format of the transformers library, and their counterparts in headway.

``config.json`` says what a model is made of, and rules say which tensor is which.
"""

from headway.interop.families.bert import BERT
from headway.interop.families.gpt2 import GPT2
from headway.interop.families.llama import LLAMA
from headway.interop.families.marian import MARIAN
from headway.interop.families.rules import Family
from headway.interop.families.t5 import T5

FAMILIES: dict[str, Family] = {
    "bert": BERT,
    "gpt2": GPT2,
    "llama": LLAMA,
    "marian": MARIAN,
    "roberta": BERT,
    "t5": T5,
}
