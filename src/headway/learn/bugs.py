"""The bugs that can be planted into the papers: where, what stands there instead, and why it is wrong."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

LOUD, VISIBLE, SILENT = "loud", "visible", "silent"  # it crashes; it does not learn; it is only worse


@dataclass(frozen=True)
class Bug:
    function: str
    old: str  # a line of the function, or a part of one
    new: str
    why: str
    level: str = SILENT


@dataclass(frozen=True)
class Paper:
    name: str
    bugs: tuple[Bug, ...]
    trial: Callable[[dict[str, Any]], list[Any]]  # what the code computes, with what it defines

    @property
    def module(self) -> str:
        return f"headway.learn.papers.{self.name}"


def try_encoder(names: dict[str, Any]) -> list[Any]:
    torch.manual_seed(1)
    model = names["Classifier"](11, 9, 12, 3, 2, 4)
    shapes = [f"{name} {tuple(each.shape)}" for name, each in model.named_parameters()]
    model = model.double()
    for number, weight in enumerate(model.parameters()):
        torch.manual_seed(number)
        nn.init.normal_(weight, std=0.3)
    tokens = torch.tensor([[1, 2, 3, 4, 5], [9, 8, 7, 0, 0]])
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    return [*shapes, model.encode(tokens, mask)[mask], model(tokens, mask), model.eval()(tokens, mask)]


def try_loop(names: dict[str, Any]) -> list[Any]:
    texts = [[3, 1, 4, 1, 5], [2, 6], [5, 3, 5, 2], [1, 2, 3, 4, 5, 6]]
    batches = [names["make_batch"](texts[:2]), names["make_batch"](texts[2:]), names["make_batch"](texts[1:3])]
    torch.manual_seed(1)
    model = nn.Sequential(nn.Embedding(7, 6), nn.Dropout(0.3), nn.Linear(6, 7)).double()
    logits = torch.randn(2, 4, 7).double()
    rates = [names["factor"](step, 3, 10) for step in (1, 2, 3, 5, 10)]
    torch.manual_seed(2)
    losses = names["train"](model, batches * 2, 0.1, 2)
    score = names["evaluate"](model, batches)
    loss = names["loss_of"](logits, torch.tensor([[1, 2, 0, 0], [3, 4, 5, 6]]))
    return [
        *names["shift"](batches[0]),
        batches[0],
        loss,
        rates,
        losses,
        score,
        str(model.training),
        *model.parameters(),
    ]


def try_writing(names: dict[str, Any]) -> list[Any]:
    torch.manual_seed(3)
    table = 2 * torch.randn(6, 6).double()
    table[3, 0], table[5, 0] = 6.0, 5.0
    logits = torch.tensor([0.1, 2.0, 1.2, -1.0, 2.5]).double()
    written = [names["greedy"](lambda tokens: table[tokens[-1]], [start], 0, 5) for start in range(1, 6)]
    searched = [
        names["beam_search"](lambda tokens: table[tokens[-1]], [start], 0, width, 4, penalty)
        for start in range(1, 6)
        for width in (1, 3)
        for penalty in (0.0, 1.0)
    ]
    beams = names["extend"]([(-1.0, [1]), (-0.5, [2])], lambda tokens: table[tokens[-1]], 3)
    filters = [names["keep_best"](logits, 2), names["keep_nucleus"](logits, 0.6), names["keep_nucleus"](logits, 0.95)]
    cold = [names["cooled"](logits, 0.5), names["score"](-6.0, 3, 0.5), names["score"](-6.0, 4, 1.0)]
    return [*filters, *cold, beams, written, searched]


def try_policy(names: dict[str, Any]) -> list[Any]:
    torch.manual_seed(4)
    one, two, three = torch.randn(3, 6, 4).double()
    real = torch.arange(4) < torch.tensor([4, 2, 3, 1, 4, 4])[:, None]
    rewards = names["token_rewards"](one[:, 0], two, three, real, 0.2)
    advantage = names["advantages"](one, two, real, 0.9, 0.8)
    return [
        *(names["ranking_loss"](one[0], two[0]), rewards, advantage, names["whitened"](one, real)),
        names["policy_loss"](one, two, three, real, 0.2),
        names["value_loss"](one, two, real),
        names["preference_loss"](one[:, :2], two[:, :2], 0.3),
    ]


ENCODER = (
    Bug("Attention.__init__", "width // heads", "width", "a head has a part of the width only", LOUD),
    Bug("Attention.__init__", "self.output = nn.Linear(width, width)", "self.output = nn.Linear(width, heads)", "the output has the width of the model", LOUD),
    Bug("Attention.split", "self.heads, self.head_width).transpose(1, 2)", "self.head_width, self.heads).permute(0, 3, 1, 2)", "a head takes neighbouring numbers"),
    Bug("Attention.weights", "math.sqrt(self.head_width)", "self.head_width", "scores are divided by the root"),
    Bug("Attention.weights", "~mask[:, None, None, :]", "mask[:, None, None, :]", "the mask is inverted", VISIBLE),
    Bug("Attention.weights", "softmax(dim=-1)", "softmax(dim=-2)", "the softmax goes over the keys"),
    Bug("Attention.forward", "self.weights(query, key, mask)", "self.weights(key, query, mask)", "queries and keys are swapped"),
    Bug("Attention.forward", "self.split(self.value(x))", "self.split(self.key(x))", "values have a matrix of their own"),
    Bug("FeedForward.__init__", "self.outer = nn.Linear(hidden, width)", "self.outer = nn.Linear(width, width)", "the outer layer reads the hidden numbers", LOUD),
    Bug("FeedForward.forward", "self.outer(torch.relu(self.inner(x)))", "torch.relu(self.outer(self.inner(x)))", "the activation stands between the layers"),
    Bug("Layer.__init__", "FeedForward(width, hidden)", "FeedForward(width, width)", "the inner width is wrong"),
    Bug("Layer.attend", "return x + self", "return self", "a residual is missing"),
    Bug("Layer.attend", "self.attention(self.first_norm(x), mask)", "self.attention(x, mask)", "the norm is missing"),
    Bug("Layer.feed", "return x + self", "return self", "a residual is missing"),
    Bug("Layer.feed", "self.second_norm(x)", "self.first_norm(x)", "each sublayer has its own norm"),
    Bug("Layer.forward", "self.feed(self.attend(x, mask))", "self.attend(self.feed(x), mask)", "attention comes first"),
    Bug("Classifier.__init__", "nn.Embedding(longest, width)", "nn.Embedding(vocabulary, width)", "positions have a table of their own size"),
    Bug("Classifier.__init__", "for _ in range(layers)", "for _ in range(heads)", "arguments are mixed up"),
    Bug("Classifier.embed", "self.positions(places)", "self.positions(tokens.clamp(max=8))", "positions are looked up with the tokens"),
    Bug("Classifier.encode", "layer(x, mask)", "layer(x, torch.ones_like(mask))", "the mask is not passed on"),
    Bug("Classifier.encode", "x = layer(x, mask)", "layer(x, mask)", "what the layers give is not used", VISIBLE),
    Bug("Classifier.pool", "mask.sum(dim=1, keepdim=True)", "mask.shape[1]", "padding is counted in the mean"),
    Bug("Classifier.forward", "self.pool(self.encode(tokens, mask), mask)", "self.pool(mask, self.encode(tokens, mask))", "the arguments are in the wrong order", LOUD),
)  # fmt: skip
LOOP = (
    Bug("make_batch", "text + [PAD] * (longest - len(text))", "[PAD] * (longest - len(text)) + text", "padding comes last"),
    Bug("shift", "batch[:, :-1], batch[:, 1:]", "batch[:, :-1], batch[:, :-1]", "targets are not shifted", VISIBLE),
    Bug("loss_of", "logits.flatten(0, 1)", "logits.flatten(0, 1).softmax(dim=-1)", "cross-entropy takes logits, not probabilities", VISIBLE),
    Bug("loss_of", ", ignore_index=PAD", "", "padding is part of the loss"),
    Bug("factor", "step / warmup", "1.0", "there is no warm-up"),
    Bug("factor", "(steps - step) / (steps - warmup)", "(steps - step) / steps", "the decay begins at the end of the warm-up"),
    Bug("set_rate", "peak * factor", "group['lr'] * factor", "the rate is multiplied again and again", VISIBLE),
    Bug("update", "    optimizer.zero_grad()\n", "", "gradients add up over all steps"),
    Bug("update", "    loss.backward()\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()\n", "    optimizer.step()\n    loss.backward()\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "the step comes after the gradients"),
    Bug("evaluate", "    model.eval()\n", "", "dropout is on while evaluating"),
    Bug("evaluate", "    model.train()\n", "", "after evaluation, training goes on without dropout"),
    Bug("evaluate", "count += real", "count += targets.numel()", "padding is counted"),
    Bug("train", "        set_rate(optimizer, peak, step, warmup, len(batches))\n        losses.append(update(model, optimizer, batch))\n", "        losses.append(update(model, optimizer, batch))\n        set_rate(optimizer, peak, step, warmup, len(batches))\n", "the rate is set after its step"),
)  # fmt: skip
WRITING = (
    Bug("cooled", "logits / temperature", "logits * temperature", "a low temperature sharpens"),
    Bug("keep_best", "-math.inf", "0.0", "a logit of 0 is not impossible"),
    Bug("keep_best", "values[-1]", "values[0]", "only the best token stays"),
    Bug("keep_nucleus", "- probabilities", "", "the token that passes the share stays"),
    Bug("keep_nucleus", "order[before >= share]", "(before >= share).nonzero()[:, 0]", "the order has to be undone"),
    Bug("greedy", "step(tokens)", "step(prompt)", "the new tokens are not read", VISIBLE),
    Bug("greedy", "            break\n        tokens.append(token)", "            tokens.append(token)\n            break\n        tokens.append(token)", "eos is not part of the text"),
    Bug("extend", "total + gain", "gain", "the log-probability so far is lost"),
    Bug("extend", "reverse=True", "reverse=False", "the worst extensions are kept", VISIBLE),
    Bug("extend", "log_softmax", "softmax", "log-probabilities are added, not probabilities"),
    Bug("score", "total / length**penalty", "total * length**penalty", "long texts pay twice"),
    Bug("beam_search", "tokens[-1] != eos", "tokens", "finished texts are extended"),
    Bug("beam_search", "-score(", "score(", "the worst text is returned"),
)  # fmt: skip
POLICY = (
    Bug("ranking_loss", "better - worse", "worse - better", "better and worse are swapped", VISIBLE),
    Bug("ranking_loss", "F.logsigmoid(better - worse)", "torch.sigmoid(better - worse)", "the logarithm is missing"),
    Bug("token_rewards", "-beta *", "beta *", "a large KL is rewarded", VISIBLE),
    Bug("token_rewards", "real.sum(dim=1) - 1", "real.sum(dim=1) * 0 + real.shape[1] - 1", "the score belongs to the last real token"),
    Bug("advantages", "discount * following", "discount * running", "an error has the next value, not the next advantage"),
    Bug("advantages", "reversed(range(rewards.shape[1]))", "range(rewards.shape[1])", "advantages look ahead, so that one goes backwards"),
    Bug("advantages", "discount * trace * running", "trace * running", "both factors belong together"),
    Bug("whitened", "counted = values[real]", "counted = values.flatten()", "padding is part of mean and deviation"),
    Bug("policy_loss", "torch.minimum", "torch.maximum", "PPO takes the pessimistic one"),
    Bug("policy_loss", "(log_probs - old_log_probs).exp()", "(old_log_probs - log_probs).exp()", "the ratio is new over old", VISIBLE),
    Bug("policy_loss", "return -(gain", "return (gain", "a loss is minus the gain", VISIBLE),
    Bug("value_loss", "/ real.sum()", "/ real.numel()", "the mean is over real tokens"),
    Bug("preference_loss", "log_probs - ref_log_probs", "log_probs", "the reference is missing"),
    Bug("preference_loss", "rewards[:, 0] - rewards[:, 1]", "rewards[:, 1] - rewards[:, 0]", "better and worse are swapped", VISIBLE),
)  # fmt: skip

PAPERS = {
    "encoder": Paper("encoder", ENCODER, try_encoder),
    "loop": Paper("loop", LOOP, try_loop),
    "decoding": Paper("writing", WRITING, try_writing),
    "rlhf": Paper("policy", POLICY, try_policy),
}
DEFAULT_BUGS = {"encoder": 8, "loop": 6, "decoding": 5, "rlhf": 5}
