"""Short answers, part one: attention, training, recurrent networks, language models and translation."""

from headway.learn.answers import Short
from headway.learn.exercise import Exercise


def question(id: str, title: str, task: str, answer: str, *marks: str) -> Short:
    return Short(id=id, title=title, task=task, answer=answer, marks=marks)


EXERCISES: list[Exercise] = [
    question(
        "attn.why_scale",
        "why scores are scaled",
        "Why are attention scores divided by the root of the width of a head?",
        """The product of two vectors of d independent numbers with variance 1 has variance d. Without the division,
        scores grow with the root of d; the softmax then puts nearly all weight on one key, where its gradient is
        nearly zero. Divided by the root of d, scores have variance 1 whatever the width.""",
        "the variance of a product grows with d",
        "a softmax of large scores saturates",
        "where it saturates, gradients vanish",
    ),
    question(
        "attn.why_three",
        "why queries, keys and values have matrices of their own",
        "Why are there three separate projections of X? What would be lost if queries and keys shared one matrix?",
        """What a token looks for, what it offers to be found by, and what it passes on are different things. With
        one matrix for queries and keys the scores X M M^T X^T are symmetric: i looks at j as much as j at i, and
        every token fits itself well. The values' own matrix lets a token pass on something else than what it is
        found by.""",
        "the three have different roles: looking for, being found, passing on",
        "with shared queries and keys, scores are symmetric",
        "values can hold something else than what they are found by",
    ),
    question(
        "pos.why",
        "why a Transformer needs positions",
        "Why does a Transformer need position encodings at all? Does one with a causal mask need them as much?",
        """Attention is a weighted mean over a set: if the tokens come in another order, the outputs are the same in
        that order, so that "dog bites man" and "man bites dog" cannot be told apart. Feed-forward layers see each
        token alone. A causal mask breaks the symmetry a little, because later tokens see more; order can be learned
        from it, but hardly.""",
        "attention does not depend on the order of keys (a mean over a set)",
        "the other layers see tokens one by one",
        "a causal mask alone tells something about order",
    ),
    question(
        "train.early_stopping",
        "early stopping",
        "What is early stopping, and what is it for? Which data decides when to stop?",
        """During training, the loss on held-out validation data is measured again and again. Training ends when it
        has not improved for some time, and the weights with the best value are kept. It keeps a model from
        overfitting, and saves time. The test data must not decide, or its score would no longer be that of unseen
        data.""",
        "validation loss is watched, and training ends when it no longer improves",
        "the best weights are kept",
        "it is against overfitting",
        "validation data decides, not test data",
    ),
    question(
        "block.why_warmup",
        "taming a deep Transformer",
        """Why does a post-norm Transformer need a warm-up of the learning rate, and what do pre-norm, ReZero and
        RAdam change about it? What does layer norm do to gradients?""",
        """In post-norm, gradients near the output are large at the start, and Adam's estimates of their variance
        rest on few steps: large steps then destroy the model. A warm-up keeps steps small until estimates are good;
        RAdam corrects the variance instead. Layer norm divides by the size of its input, and so scales gradients by
        one over it. In pre-norm the residual path is free of norms, so that gradients reach all layers. ReZero
        starts as the identity.""",
        "at the start, gradients or Adam's estimates of them are unreliable; the warm-up keeps steps small",
        "pre-norm has a residual path without norms",
        "ReZero starts as the identity (a = 0)",
        "RAdam corrects the variance of the adaptive step itself",
        "layer norm scales gradients by one over the size of its input",
    ),
    question(
        "rnn.vanishing",
        "vanishing and exploding gradients",
        """Why do gradients vanish or explode in a simple recurrent network? What does truncated backpropagation do,
        and what does it cost?""",
        """Going back one step multiplies the gradient by the transposed recurrent matrix (and the derivative of
        tanh). After k steps that is about a k-th power: with singular values below 1 it vanishes, above 1 it may
        explode. Truncation goes back only some steps: less memory, no explosion over long times, but no gradient
        from further away either.""",
        "each step back multiplies by the recurrent matrix, so that powers arise",
        "below 1 they vanish, above 1 they explode",
        "truncation stops after some steps",
        "what lies further back cannot be learned then",
    ),
    question(
        "rnn.gates",
        "what gates do",
        "What does each gate of an LSTM do, and why does its memory keep gradients alive?",
        """The forget gate decides what stays of the memory, the input gate what is added, the output gate what is
        shown to the rest of the network. The memory is changed by adding, and is multiplied by the forget gate
        only: where this is near 1, gradients go back through many steps nearly unchanged.""",
        "forget: what stays of the memory",
        "input: what is added",
        "output: what is shown",
        "the memory changes by addition, so gradients pass where the forget gate is near 1",
    ),
    question(
        "lm.chain_rule",
        "the chain rule of probabilities",
        "How does a model that predicts only the next token give a probability to a whole text? Is anything lost?",
        """P(w1 ... wn) is the product of P(wi | w1 ... w(i-1)), which is always true: nothing is lost and nothing
        assumed, except by models that only look at the last few words. The end of the text is a token, too, so that
        the probabilities of all texts add up to 1. The log-probability is a sum.""",
        "the product of the conditional probabilities of each token, given those before",
        "it is exact (only a limited window is an assumption)",
        "there is an end token",
    ),
    question(
        "lm.training_and_prediction",
        "a decoder in training and in prediction",
        "How does the decoder of a translator work differently in training and in prediction? What problem follows?",
        """In training it reads the right target tokens (teacher forcing), all positions at once, with a causal
        mask. In prediction it reads its own tokens and has to go step by step. It has never seen its own mistakes
        (exposure bias): one wrong token leads to contexts that were not trained on. Scheduled sampling mixes both.""",
        "in training it reads the right tokens, in prediction its own",
        "in training all positions at once, in prediction step by step",
        "mistakes add up, because it has never seen its own (exposure bias)",
    ),
]
