"""Other people's models in headway's parts, and back.

A family is a kind of network in the format of the transformers library: its ``config.json`` says what it is made of,
and its tensors have names.
"""

from headway.models.families.bert import BERT
from headway.models.families.gpt2 import GPT2
from headway.models.families.llama import LLAMA
from headway.models.families.marian import MARIAN
from headway.models.families.rules import Family
from headway.models.families.t5 import T5

FAMILIES: dict[str, Family] = {
    "bert": BERT,
    "gpt2": GPT2,
    "llama": LLAMA,
    "marian": MARIAN,
    "roberta": BERT,
    "t5": T5,
}
