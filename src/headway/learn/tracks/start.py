"""First steps: how this works."""

from headway.learn.exercise import Exercise, FillIn, Mistake
from headway.learn.tracks.attention import WRITTEN, numbers

HELLO = FillIn(
    id="start.hello",
    title="a vector of length one (already solved)",
    task="""
    Every exercise is a file like this one. Write the missing lines and save: headway checks the function against the
    one that the library uses, with numbers in float64. This one is already right, so that you see what that looks like.

    In the terminal, n goes on to the next exercise, h gives a hint (there are three), l lists all exercises, r checks
    again, x brings the file back to its beginning, and q quits. What you have solved is kept.
    """,
    hints=(
        "There is nothing to do here: press n.",
        "If you want to see a failing check, delete the square root and save.",
        "The line that is there is the solution.",
    ),
    module=WRITTEN,
    is_given=True,
    cases=lambda: {"a vector": (numbers(5),), "a long one": (numbers(100),)},
    mistakes=[
        Mistake.of(
            "This divides by the sum of squares, not by its root.",
            ("torch.sqrt(x.square().sum())", "x.square().sum()"),
        )
    ],
)

EXERCISES: list[Exercise] = [HELLO]
