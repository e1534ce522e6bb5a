"""Who sits at this terminal, for the audit."""


def user_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        return "unknown"
