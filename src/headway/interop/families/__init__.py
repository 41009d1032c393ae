"""Other people's models in headway's parts, and back.

A family is a kind of network in the format of the transformers library: its ``config.json`` says what it is made of,
and its tensors have names.
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
