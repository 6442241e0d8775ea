"""What can go wrong with an import. Each text is one line that says what, where, and what would be right."""


class ImporterError(Exception):
    """Base of every error that a user can do something about. `kind` and `exit_status` are for programs."""

    kind = "importer"
    exit_status = 1


class MissingPackage(ImporterError):
    """The public reader of the format is not installed; `remedy` is the command that installs it."""

    kind = "missing_package"
    exit_status = 3

    def __init__(self, package: str, reason: str, remedy: str):
        super().__init__(f"Python package {package} cannot be used ({reason}): install it with `{remedy}`")
        self.package = package
        self.remedy = remedy


class InputError(ImporterError):
    """An input file is absent, unreadable, damaged, of another format, or does not fit the others."""

    kind = "input"
    exit_status = 4


class OutputError(ImporterError):
    """The output directory cannot be used."""

    kind = "output"
    exit_status = 5


class ReaderCrashed(ImporterError):
    """The format's reader (compiled code of others) died of a signal, as some do on damaged input."""

    kind = "crash"
    exit_status = 6
