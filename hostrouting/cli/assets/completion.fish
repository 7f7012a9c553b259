# Completion of hostrouting for fish, as `hostrouting completion fish` prints it.

function __hostrouting_command -d 'Whether this command was typed; without an argument: whether none was typed'
    # The command is the first word that is not an option: options before it take nothing.
    set -l words (commandline -opc)
    for word in $words[2..-1]
        if not string match -q -- '-*' $word
            test "$word" = "$argv"
            return
        end
    end
    test -z "$argv"
end

function __hostrouting_devices -d 'The network devices of this host'
    for path in /sys/class/net/*/
        string split -r -m 1 -f 2 / (string trim -r -c / $path)
    end
end

complete -c hostrouting -f
@TABLES@
