"""The bits of a training step do not depend on how many processes compute it."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.data.batch import Batch, LabelledBatch
from headway.objectives.tally import Tally
from headway.training.grains import ABSENT, Grains, Tree, add_in_order
from headway.training.sharing import ALONE, Sharing
from ranks import together


def bits(tensor: Tensor) -> list[int]:
    return tensor.view(torch.int32).tolist()


def leaves(count: int) -> list[Tensor]:
    """Numbers of very different sizes: their sum depends on the order."""
    random = torch.Generator().manual_seed(1)
    return [
        torch.randn(13, generator=random) * 10.0 ** torch.randint(-3, 4, (13,), generator=random) for _ in range(count)
    ]


def test_a_tree_adds_in_pairs() -> None:
    tree, (a, b, c, d) = Tree(), leaves(4)
    expected = (a + b) + (c + d)
    for leaf in (a, b, c, d):
        tree.add(leaf)
    assert bits(tree.total) == bits(expected)


@pytest.mark.parametrize("processes", [2, 4, 8])
def test_any_number_of_processes_adds_up_the_same_tree(processes: int) -> None:
    alone = Tree()
    for leaf in leaves(8):
        alone.add(leaf)
    each = 8 // processes

    def body(rank: int) -> Tensor:
        own = Tree()
        for leaf in leaves(8)[rank * each : (rank + 1) * each]:
            own.add(leaf)
        return add_in_order(own.total, processes)

    for total in together(processes, body):
        assert bits(total) == bits(alone.total)
    assert bits(torch.stack(leaves(8)).sum(0)) != bits(alone.total)  # the order matters


def test_what_is_absent_changes_no_bit() -> None:
    zeros = torch.tensor([0.0, -0.0, 1.5])
    assert bits(zeros + ABSENT) == bits(ABSENT + zeros) == bits(zeros)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner, self.unused = nn.Embedding(9, 8), nn.Linear(8, 4), nn.Linear(2, 2)
        random = torch.Generator().manual_seed(3)  # of each rank's own: threads share torch's
        with torch.no_grad():
            for weight in self.parameters():
                weight.copy_(torch.randn(weight.shape, generator=random))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.inner(self.table(tokens).mean(1).tanh())


def gradients(rank: int, processes: int, rows: int, grains: int = 8) -> list[Tensor | None]:
    """One step of a network, as the loop does it."""
    model, random = Net(), torch.Generator().manual_seed(rows)
    tokens, targets = (
        torch.randint(9, (rows, 5), generator=random),
        torch.randint(4, (rows,), generator=random),
    )
    batch, weights = LabelledBatch(tokens, targets), list(model.parameters())
    own, tree = Grains(grains, weights, rank, processes), Tree()
    for grain in own.own():
        part, loss = own.rows(batch, grain), torch.full((), ABSENT)
        if part is not None:
            loss = nn.functional.cross_entropy(model(part.inputs), part.targets, reduction="sum") / rows
            loss.backward()
        tree.add(own.leaf(loss.detach()))
    return [own.gather(tree), *(weight.grad for weight in weights)]


@pytest.mark.parametrize("rows", [37, 5])  # with 5 rows, some grains have none
def test_gradients_and_loss_are_the_same_bits(rows: int) -> None:
    alone = gradients(0, 1, rows)
    for processes in (2, 4, 8):
        for own in together(processes, lambda rank, n=processes: gradients(rank, n, rows)):  # type: ignore[misc]
            assert [None if each is None else bits(each) for each in own] == [
                None if each is None else bits(each) for each in alone
            ]
    other = gradients(0, 1, rows, grains=2)
    assert [each is None for each in other] == [False, False, False, False, True, True]  # an unused weight stays unused
    pairs = [(one, two) for one, two in zip(alone, other, strict=True) if one is not None and two is not None]
    assert any(bits(one) != bits(two) for one, two in pairs)
    assert all(torch.allclose(one, two) for one, two in pairs)


@pytest.mark.parametrize("batches", [0, 1, 2, 7])
def test_a_shared_evaluation_adds_up_the_same_tallies(batches: int) -> None:
    values: list[Any] = [float(leaf[0]) for leaf in leaves(batches)]

    def measure(batch: Batch) -> dict[str, Tally]:
        measured.append(int(batch.inputs[0]))
        total = torch.tensor(values[int(batch.inputs[0])])
        return {"loss": Tally(total, 3), "accuracy": Tally(total.abs(), torch.tensor(4))}

    def means(sharing: Sharing) -> list[dict[str, tuple[float, int]]]:
        data = (LabelledBatch(torch.tensor([number]), torch.tensor([0])) for number in range(batches))
        tallies = list(sharing.tallies(measure, data))
        return [{name: (float(each.total), int(each.count)) for name, each in row.items()} for row in tallies]

    measured: list[int] = []
    alone = means(ALONE)
    assert len(alone) == batches
    for processes in (2, 3):
        measured.clear()
        for own in together(processes, lambda rank, n=processes: means(Sharing(rank, n))):  # type: ignore[misc]
            assert own == alone
        repeated = processes - 1 if batches else 0  # each looks at the first batch to know what is measured
        assert len(measured) == batches + repeated
