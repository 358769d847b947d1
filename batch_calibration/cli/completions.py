"""Completions of commands and flags for bash, zsh and fish, from the parser of the program."""

from collections.abc import Mapping, Sequence

SHELLS = ("bash", "zsh", "fish")

BASH = """# {program} completions bash > ~/.local/share/bash-completion/completions/{program}
_{name}() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [[ $COMP_CWORD == 1 ]]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    case "$word" in
        -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}}
complete -o filenames -F _{name} {program}
"""
ZSH = """#compdef {program}
# batch-calibration completions zsh > a folder of $fpath/_{program}
_{name}() {{
    local -a flags
    if (( CURRENT == 2 )); then
        compadd -- {commands}
        return
    fi
    case "${{words[2]}}" in
{cases}
    esac
    if [[ "$PREFIX" == -* ]]; then compadd -- $flags; else _files; fi
}}
compdef _{name} {program}
"""
FISH = """# batch-calibration completions fish > ~/.config/fish/completions/{program}.fish
complete -c {program} -n __fish_use_subcommand -f -a "{commands}"
{cases}
"""


def script(shell: str, program: str, flags: Mapping[str, Sequence[str]]) -> str:
    """What a shell reads to complete the program's words.

    >>> print(script("fish", "mine", {"run": ["--quiet"]}).splitlines()[-1])
    complete -c mine -n "__fish_seen_subcommand_from run" -l quiet
    """
    cases = []
    for command, names in flags.items():
        listed = " ".join(names)
        if shell == "bash":
            cases.append(f'        {command}) words="{listed}" ;;')
        elif shell == "zsh":
            cases.append(f"        {command}) flags=({listed}) ;;")
        else:
            condition = f'"__fish_seen_subcommand_from {command}"'
            for name in names:
                # Fish names a short flag otherwise.
                option = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                cases.append(f"complete -c {program} -n {condition} {option}")
    template = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell]
    return template.format(
        program=program, name=program.replace("-", "_"), commands=" ".join(flags),
        cases="\n".join(cases),
    )  # fmt: skip
