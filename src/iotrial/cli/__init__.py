"""The command line: one verb, one file.  The only package that prints or exits."""

import sys


def entry() -> None:
    """The program ``iotrial``.  Ctrl-C ends it in words also while its modules are being loaded."""
    try:
        from iotrial.cli.main import main
    except KeyboardInterrupt:
        sys.stderr.write("\niotrial: interrupted\n")
        sys.exit(130)
    main()
