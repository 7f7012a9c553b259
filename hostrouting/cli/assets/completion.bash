# Completion of hostrouting for bash, as `hostrouting completion` prints it.
# shellcheck shell=bash

_hostrouting() {
@TABLES@
    # The command is the first word that is not an option: options before it take nothing.
    local IFS=$' \t\n' command=hostrouting word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [[ $word != -* ]]; then
            command=$word
            break
        fi
    done

    # What the option before the typed word takes. Readline takes the = of --config=FILE for a word.
    local typed=$2 before=$3 takes=''
    [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD - 2]}
    for word in ${options[$command]-}; do
        [[ $word == "$before="* ]] && takes=${word#*=}
    done

    local offered='' path
    case $takes in
    file) compopt -o default ;; # Readline itself completes files,
    directory) compopt -o dirnames ;; # and directories
    device)
        # A device can have almost any name: it is quoted, and not given to compgen, which would expand it.
        for path in /sys/class/net/*/; do
            path=${path%/}
            [[ -d $path && ${path##*/} == "$typed"* ]] && COMPREPLY+=("$(printf %q "${path##*/}")")
        done
        ;;
    other) ;; # nothing is known about it
    '')
        [[ $typed == -* ]] || offered=${words[$command]-}
        for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
            [[ " $offered " == *" $word "* ]] && offered='' # it was typed already
        done
        if [[ ! $offered ]]; then
            for word in ${options[$command]-}; do
                offered+=" ${word%%=*}"
            done
        fi
        ;;
    *) offered=${takes//,/ } ;;
    esac
    [[ $offered ]] && mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$typed")
}

complete -F _hostrouting hostrouting
