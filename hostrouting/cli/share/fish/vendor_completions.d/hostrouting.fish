# Completion of hostrouting for fish. `make messages` writes this file from the code: change that.

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
complete -c hostrouting -n '__hostrouting_command' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command' -l version -d 'show program\'s version number and exit'
complete -c hostrouting -n '__hostrouting_command' -l json -d 'print one JSON document'

complete -c hostrouting -n __hostrouting_command -a check -d 'does every address of the expected CIDRs leave by an expected device?'
complete -c hostrouting -n '__hostrouting_command check' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command check' -l dev -x -a '(__hostrouting_devices)' -d 'an expected device, instead of those of the default route; may be repeated'
complete -c hostrouting -n '__hostrouting_command check' -l gateway -x -d 'the gateway on DEV that the repair uses, instead of that of the default route'
complete -c hostrouting -n '__hostrouting_command check' -l config -r -F -d 'the configuration, as JSON; - is standard input'
complete -c hostrouting -n '__hostrouting_command check' -l wait -x -d 'how long to wait for a default route or a device that does not exist yet (default: 0)'
complete -c hostrouting -n '__hostrouting_command check' -l snapshots -r -F -d 'check the snapshots of many nodes: directories with *.json files, patterns in quotes, or files'
complete -c hostrouting -n '__hostrouting_command check' -l html -r -F -d 'with --snapshots: also write the results as a page to this file'
complete -c hostrouting -n '__hostrouting_command check' -l snapshot -r -F -d 'use this saved snapshot instead of this host; - is standard input'
complete -c hostrouting -n '__hostrouting_command check' -l json -d 'print one JSON document, hostrouting/check/1'
complete -c hostrouting -n '__hostrouting_command check' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a discover -d 'propose the CIDRs to expect, from what the files of this host say'
complete -c hostrouting -n '__hostrouting_command discover' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command discover' -l json -d 'print one JSON document, hostrouting/discover/1'
complete -c hostrouting -n '__hostrouting_command discover' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a explain -d 'show the route of a packet: rule, table, route, owner, device'
complete -c hostrouting -n '__hostrouting_command explain' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command explain' -l dev -x -a '(__hostrouting_devices)' -d 'an expected device, instead of those of the default route; may be repeated'
complete -c hostrouting -n '__hostrouting_command explain' -l config -r -F -d 'the configuration, as JSON; - is standard input'
complete -c hostrouting -n '__hostrouting_command explain' -l from -x -d 'its source address'
complete -c hostrouting -n '__hostrouting_command explain' -l iif -x -a '(__hostrouting_devices)' -d 'the device that it arrives on; lo: the host itself sends it'
complete -c hostrouting -n '__hostrouting_command explain' -l oif -x -a '(__hostrouting_devices)' -d 'the device that its socket is bound to'
complete -c hostrouting -n '__hostrouting_command explain' -l mark -x -d 'its mark'
complete -c hostrouting -n '__hostrouting_command explain' -l tos -x -d 'its type of service'
complete -c hostrouting -n '__hostrouting_command explain' -l uid -x -d 'the user that its socket belongs to'
complete -c hostrouting -n '__hostrouting_command explain' -l ipproto -x -d 'its protocol number: 6 for TCP, 17 for UDP'
complete -c hostrouting -n '__hostrouting_command explain' -l sport -x -d 'its source port'
complete -c hostrouting -n '__hostrouting_command explain' -l dport -x -d 'its destination port'
complete -c hostrouting -n '__hostrouting_command explain' -l snapshot -r -F -d 'use this saved snapshot instead of this host; - is standard input'
complete -c hostrouting -n '__hostrouting_command explain' -l json -d 'print one JSON document, hostrouting/explain/1'
complete -c hostrouting -n '__hostrouting_command explain' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a repair -d 'print the fewest static routes that repair what check finds'
complete -c hostrouting -n '__hostrouting_command repair' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command repair' -l dev -x -a '(__hostrouting_devices)' -d 'an expected device, instead of those of the default route; may be repeated'
complete -c hostrouting -n '__hostrouting_command repair' -l gateway -x -d 'the gateway on DEV that the repair uses, instead of that of the default route'
complete -c hostrouting -n '__hostrouting_command repair' -l config -r -F -d 'the configuration, as JSON; - is standard input'
complete -c hostrouting -n '__hostrouting_command repair' -l wait -x -d 'how long to wait for a default route or a device that does not exist yet (default: 0)'
complete -c hostrouting -n '__hostrouting_command repair' -l as-config -d 'print only a configuration that includes the repair: hostrouting apply --config - reads it'
complete -c hostrouting -n '__hostrouting_command repair' -l mode -x -a 'WARN STRICT' -d 'the mode of that configuration (default: that of the installed or the named one, or else WARN)'
complete -c hostrouting -n '__hostrouting_command repair' -l snapshot -r -F -d 'use this saved snapshot instead of this host; - is standard input'
complete -c hostrouting -n '__hostrouting_command repair' -l json -d 'print one JSON document, hostrouting/repair/1'
complete -c hostrouting -n '__hostrouting_command repair' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a plan -d 'show what apply would do; changes nothing'
complete -c hostrouting -n '__hostrouting_command plan' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command plan' -l config -r -F -d 'the configuration, as JSON; - is standard input'
complete -c hostrouting -n '__hostrouting_command plan' -l wait -x -d 'how long apply would wait for a default route or a device that does not exist yet (default: as in the installed boot scripts, or 30; the boot scripts wait at most 60)'
complete -c hostrouting -n '__hostrouting_command plan' -l allow-removal -d 'apply even if this takes away the installed gate, the mode STRICT or the guard'
complete -c hostrouting -n '__hostrouting_command plan' -l snapshot -r -F -d 'use this saved snapshot instead of this host; - is standard input'
complete -c hostrouting -n '__hostrouting_command plan' -l json -d 'print one JSON document, hostrouting/plan/1'
complete -c hostrouting -n '__hostrouting_command plan' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a preflight -d 'find what would make apply, the next machine or a reboot fail; changes nothing'
complete -c hostrouting -n '__hostrouting_command preflight' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command preflight' -l config -r -F -d 'the configuration, as JSON; - is standard input'
complete -c hostrouting -n '__hostrouting_command preflight' -l allow-removal -d 'apply even if this takes away the installed gate, the mode STRICT or the guard'
complete -c hostrouting -n '__hostrouting_command preflight' -l json -d 'print one JSON document, hostrouting/preflight/1'
complete -c hostrouting -n '__hostrouting_command preflight' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a status -d 'show what hostrouting has installed, and the verdict now'
complete -c hostrouting -n '__hostrouting_command status' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command status' -l config -r -F -d 'the configuration, as JSON; - is standard input'
complete -c hostrouting -n '__hostrouting_command status' -l json -d 'print one JSON document, hostrouting/status/1'
complete -c hostrouting -n '__hostrouting_command status' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a snapshot -d 'print devices, addresses, rules and routes as JSON, to examine elsewhere'
complete -c hostrouting -n '__hostrouting_command snapshot' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command snapshot' -l script -d 'print a shell script that takes the snapshot of a host without hostrouting; it needs iproute2, not root; not with --json'
complete -c hostrouting -n '__hostrouting_command snapshot' -l redact -x -d 'replace addresses and devices, the same everywhere, so that strangers may see it; each CIDR that is given is printed to standard error as it is called in the snapshot'
complete -c hostrouting -n '__hostrouting_command snapshot' -l snapshot -r -F -d 'use this saved snapshot instead of this host; - is standard input'
complete -c hostrouting -n '__hostrouting_command snapshot' -l json -d 'print one JSON document, hostrouting/snapshot/1'
complete -c hostrouting -n '__hostrouting_command snapshot' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a completion -d 'print the script that completes this command line in bash, zsh or fish'
complete -c hostrouting -n '__hostrouting_command completion' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command completion' -l json -d 'print one JSON document, hostrouting/completion/1'
complete -c hostrouting -n '__hostrouting_command completion' -s v -l verbose -d 'log each action to standard error'
complete -c hostrouting -n '__hostrouting_command completion; and not __fish_seen_subcommand_from bash zsh fish' -a 'bash zsh fish' -d 'the shell: bash, zsh, fish'

complete -c hostrouting -n __hostrouting_command -a manual -d 'print the manual page, hostrouting(1)'
complete -c hostrouting -n '__hostrouting_command manual' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command manual' -l json -d 'print one JSON document, hostrouting/manual/1'
complete -c hostrouting -n '__hostrouting_command manual' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a apply -d 'apply the configuration to the host, now and at every boot'
complete -c hostrouting -n '__hostrouting_command apply' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command apply' -l config -r -F -d 'the configuration, as JSON; - is standard input'
complete -c hostrouting -n '__hostrouting_command apply' -l wait -x -d 'how long to wait for a default route or a device that does not exist yet (default: as in the installed boot scripts, or 30; the boot scripts wait at most 60)'
complete -c hostrouting -n '__hostrouting_command apply' -l allow-removal -d 'apply even if this takes away the installed gate, the mode STRICT or the guard'
complete -c hostrouting -n '__hostrouting_command apply' -l json -d 'print one JSON document, hostrouting/apply/1'
complete -c hostrouting -n '__hostrouting_command apply' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a remove -d 'remove everything that hostrouting has installed, and nothing else'
complete -c hostrouting -n '__hostrouting_command remove' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command remove' -l config -r -F -d 'the configuration, as JSON; - is standard input'
complete -c hostrouting -n '__hostrouting_command remove' -l dry-run -d 'show what would be removed, and change nothing'
complete -c hostrouting -n '__hostrouting_command remove' -l json -d 'print one JSON document, hostrouting/remove/1'
complete -c hostrouting -n '__hostrouting_command remove' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a guard -d 'keep the routing right until it is told to stop'
complete -c hostrouting -n '__hostrouting_command guard' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command guard' -l config -r -F -d 'the configuration, as JSON; - is standard input'
complete -c hostrouting -n '__hostrouting_command guard' -l json -d 'print one JSON document, hostrouting/guard/1'
complete -c hostrouting -n '__hostrouting_command guard' -s v -l verbose -d 'log each action to standard error'

complete -c hostrouting -n __hostrouting_command -a clean -d 'show or delete what another CNI left behind'
complete -c hostrouting -n '__hostrouting_command clean' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command clean' -l config -r -F -d 'the configuration, as JSON; - is standard input'
complete -c hostrouting -n '__hostrouting_command clean' -l apply -d 'make a plan, print it, and delete what is in it; without this option nothing is changed'
complete -c hostrouting -n '__hostrouting_command clean' -l undo -r -F -d 'restore what a clean-up deleted, from the file that it named'
complete -c hostrouting -n '__hostrouting_command clean' -l approved -r -F -d 'with --apply: delete only what is in this plan and is still stale; the plan is the output of `clean azure-vnet --config FILE --json`; - is standard input'
complete -c hostrouting -n '__hostrouting_command clean' -l json -d 'print one JSON document, hostrouting/clean/1'
complete -c hostrouting -n '__hostrouting_command clean' -s v -l verbose -d 'log each action to standard error'
complete -c hostrouting -n '__hostrouting_command clean; and not __fish_seen_subcommand_from azure-vnet' -a 'azure-vnet' -d 'which CNI left it behind: azure-vnet'

complete -c hostrouting -n __hostrouting_command -a render -d 'write the boot files into an image; changes no kernel and no service manager'
complete -c hostrouting -n '__hostrouting_command render' -s h -l help -d 'show this help message and exit'
complete -c hostrouting -n '__hostrouting_command render' -l config -r -F -d 'the configuration, as JSON; - is standard input'
complete -c hostrouting -n '__hostrouting_command render' -l root -x -a '(__fish_complete_directories)' -d 'where the image is mounted'
complete -c hostrouting -n '__hostrouting_command render' -l wait -x -d 'how long the boot scripts wait for a default route or a device that does not exist yet (default: as in the installed boot scripts, or 30; the boot scripts wait at most 60)'
complete -c hostrouting -n '__hostrouting_command render' -l json -d 'print one JSON document, hostrouting/render/1'
complete -c hostrouting -n '__hostrouting_command render' -s v -l verbose -d 'log each action to standard error'
