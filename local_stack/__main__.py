"""`python -m local_stack`, what `./headrace` runs once its environment is there."""

from local_stack.cli import main

main()
