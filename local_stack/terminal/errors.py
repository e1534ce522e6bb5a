"""The one error that users see: what happened, and what to do about it."""

LOOK = "look at: ./headrace status"


class StackError(Exception):
    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix
