"""Training as the command line shows it: what is trained, on how much, its steps, and its results."""

from typing import TYPE_CHECKING

from headway.cli.render import console, dim, metric_blocks, note, print_block

if TYPE_CHECKING:
    from headway.runs.fit import Fit
    from headway.runs.pipeline import Reporter


def following(brief: bool = False) -> "Reporter":
    """How runs are trained from the command line; ``brief``: one of many, without a report of its own."""
    from headway.api.progress import Terminal, duration

    class CommandLine(Terminal):
        def note(self, message: str) -> None:
            note(message)

        def follow(self, fit: "Fit") -> None:
            if self.brief:
                self.show_steps(fit)
                return
            introduce(fit)
            self.show_steps(fit)
            if fit.interrupted is None:
                conclude(fit)

    def introduce(fit: "Fit") -> None:
        console.print(
            f"{fit.recipe.name}: {fit.parameters:,} parameters, {len(fit.splits.train):,} examples, in {fit.run.folder}"
        )
        if fit.spec.batch_tokens is not None:
            batches, padding = f"{fit.sampler.steps_in(1):,} batches", f"{fit.sampler.padding():.1%} padding"
            console.print(f"an epoch: {batches}, bucketed by length, {padding}")
        for message in fit.notes:
            note(message)
        if fit.progress.ended:
            console.print("already done: nothing left to train")
        elif fit.progress.step:
            console.print(f"resuming after step {fit.progress.step:,}")
        for good, message in fit.preflight():
            console.print(dim(f"preflight: {message}")) if good else note(f"preflight: {message}")

    def conclude(fit: "Fit") -> None:
        results = fit.run.results
        spent, step = duration(results["seconds"]), results["weights_of_step"]
        console.print(f"{results['ended']} after {spent}; tested with the weights of step {step:,}")
        if not console.quiet:
            for block in metric_blocks(results["test"]):
                print_block(block)

    return CommandLine(console, brief)
