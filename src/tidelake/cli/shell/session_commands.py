r"""Runs input of the prompt: SQL, or a command such as ``\format json``."""

from __future__ import annotations

from tidelake.cli.output.formats import FORMATS
from tidelake.cli.shell.shell import Shell
from tidelake.cli.shell.statement_text import holds_statement, is_command
from tidelake.errors import near_names

COMMAND_WORDS = {
    "\\help": "this list",
    "\\format FORMAT": f"set the output format: {', '.join(FORMATS)}",
    "\\timing": "turn rows and seconds of each statement on or off",
    "\\quit": "exit; so do exit, quit and Ctrl-D",
}
KEYS = {
    "Tab": "completes keywords, catalogs, databases, tables, columns and procedures",
    "Ctrl-C": "cancels the running statement, or clears the input",
    "Ctrl-R": "searches the history",
}


def run_input(text: str, shell: Shell) -> bool:
    """Run an input; return True to exit."""
    if not is_command(text):
        if holds_statement(text):
            shell.run(text)
        return False
    word, _, rest = text.strip().rstrip("; ").lstrip("\\").partition(" ")
    match word.lower():
        case "exit" | "quit" | "q":
            return True
        case "help" | "h" | "?":
            shell.say(_help())
        case "timing":
            shell.timing = not shell.timing
            shell.say(f"Timing is {'on' if shell.timing else 'off'}.")
        case "format":
            _set_format(rest.strip().lower(), shell)
        case _:
            shell.say(f"There is no command '\\{word}': \\help lists them.")
    return False


def _set_format(wanted: str, shell: Shell) -> None:
    if wanted in FORMATS:
        shell.format = wanted
        return
    near = near_names(wanted, FORMATS) if wanted else ""
    shell.say(f"\\format takes one of {', '.join(FORMATS)}.{near}")


def _help() -> str:
    known = COMMAND_WORDS | KEYS
    width = max(map(len, known))
    lines = [f"  {name.ljust(width)}  {words}" for name, words in known.items()]
    return "\n".join(["Statements end with a semicolon. Other commands and keys:", *lines])
