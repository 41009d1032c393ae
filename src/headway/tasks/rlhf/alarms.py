"""What can go wrong while a policy learns, seen from one evaluation to the next, in words."""

from collections.abc import Mapping, Sequence

Measured = Mapping[str, float]

FAR = 30.0  # nats: a policy that far from its start writes another language
NEGATIVE = -0.5  # nats: a little below zero is chance
COLLAPSED = 0.2  # of the entropy that there was at first
LONGER, SHORTER = 2.0, 0.5  # than at first
REPEATED, SOME = 2.0, 0.02  # times as many repeated runs of tokens as at first, and a few more
LEAST_CHANGE = 0.05  # of a reward or a judgement, as a share of their range so far, to count as rising or falling


def alarms(history: Sequence[Measured]) -> list[str]:
    """About the last of these, beside the first."""
    if len(history) < 2:
        return []
    first, last = history[0], history[-1]
    found = []
    if last["kl"] < NEGATIVE:
        found.append(f"the KL is {last['kl']:.2f}, below zero: what is sampled is not what is learned from")
    if last["kl"] > FAR:
        found.append(f"the KL is {last['kl']:.1f} nats and running off: raise beta, or lower train.learning_rate")
    if last["entropy"] < COLLAPSED * first["entropy"]:
        fell = f"fell from {first['entropy']:.2f} to {last['entropy']:.2f}"
        found.append(f"the entropy of a token {fell}: answers become all alike")
    if "judge" in last and rises([each["reward"] for each in history]) and rises([-each["judge"] for each in history]):
        found.append("the reward still rises while the judge's verdict falls: the policy has found a gap in the reward")
    if last["length"] > LONGER * first["length"]:
        found.append(f"answers grew from {first['length']:.0f} tokens to {last['length']:.0f}")
    if last["length"] < SHORTER * first["length"]:
        found.append(f"answers shrank from {first['length']:.0f} tokens to {last['length']:.0f}")
    if last["repeated"] > REPEATED * first["repeated"] + SOME:
        grew = f"from {first['repeated']:.0%} to {last['repeated']:.0%}"
        found.append(f"answers repeat themselves: the share of three tokens that came before grew {grew}")
    return found


def rises(values: Sequence[float]) -> bool:
    """Whether the last is above the two before it, by more than chance."""
    step = LEAST_CHANGE * (max(values) - min(values))
    return len(values) > 2 and values[-1] > values[-2] + step and values[-1] > values[-3] + step
