"""`python -m local_stack`, what `./headrace` runs once its environment is there."""

import signal

# Ctrl-C while the rest is imported ends it as it ends any program, without a stack trace
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # held back while Python started

from local_stack.cli import main  # noqa: E402

main()
