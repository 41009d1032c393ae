"""The command ``headway``. Signals are handled before anything else is imported."""

from headway.config import signals


def main() -> None:
    signals.handle()
    try:
        from headway import cli

        cli.main()
    except SystemExit as end:
        if signals.received and end.code:
            signals.end(signals.received[0])
        raise
    except BaseException:
        if signals.received:  # a library has turned the interrupt into an error of its own
            signals.leave(signals.received[0])
        raise
    finally:
        signals.use(signals.leave)


if __name__ == "__main__":
    main()
