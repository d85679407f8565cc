"""The `anycastlab` program, also as `python -m anycastlab`."""

from anycastlab.first_moments import begin, complete_streams


def main() -> None:
    """Run the command line; Ctrl-C is understood before its imports begin."""
    begin()
    complete_streams()
    from anycastlab.cli import main as command

    command()


if __name__ == "__main__":
    main()
