#compdef hostrouting
# Completion of hostrouting for zsh, as `hostrouting completion zsh` prints it.

_hostrouting() {
@TABLES@
    local curcontext=$curcontext state line ret=1
    _arguments -C $flags '1:command:->command' '*::argument:->argument' && ret=0
    case $state in
    command)
        _describe -t commands command subcommands && ret=0
        ;;
    argument)
        # _arguments has removed the program from $words: the first word is the command.
        curcontext=${curcontext%:*}-$words[1]:
        if (( $+specs[$words[1]] )); then
            _arguments "${(f@)specs[$words[1]]}" && ret=0
        fi
        ;;
    esac
    return ret
}

_hostrouting_devices() {
    local -a devices=(/sys/class/net/*(N-/:t))
    _wanted devices expl 'network device' compadd -a devices
}

# As a file in $fpath, this is the body of _hostrouting, which is called; read by source, it only makes it known.
if [[ $funcstack[1] == _hostrouting ]]; then
    _hostrouting "$@"
else
    compdef _hostrouting hostrouting
fi
