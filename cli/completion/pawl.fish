# SPDX-License-Identifier: Apache-2.0
#
# fish completion for pawl: commands, options and their words, names of locks that are held (asked of
# the backend, for at most a second), and for `pawl run` the program.

# The words of the command line behind options and their values: the command and its operands.
function __pawl_operands
    set -l words (commandline -opc)
    set -e words[1]
    set -l skip no
    for word in $words
        if test $skip = yes
            set skip no
        else
            switch $word
                case --url --wait -w --busy-exit -E --lease --max-hold --grace --kind --redlock -c --every \
                        --for --count --sort --seconds --threads
                    set skip yes
                case '-*'
                case '*'
                    echo $word
            end
        end
    end
end

function __pawl_needs_command
    test (count (__pawl_operands)) -eq 0
end

function __pawl_in
    set -l operands (__pawl_operands)
    test (count $operands) -ge 1; and contains -- $operands[1] $argv
end

# The first operand of one of these commands is being typed.
function __pawl_needs_name
    __pawl_in $argv; and test (count (__pawl_operands)) -eq 1
end

function __pawl_needs_program
    __pawl_in run; and test (count (__pawl_operands)) -ge 2
end

function __pawl_names
    set -l words (commandline -opc)
    set -l url
    for i in (seq (count $words))
        if test "$words[$i]" = --url; and test $i -lt (count $words)
            set url --url $words[(math $i + 1)]
        else if string match -q -- '--url=*' $words[$i]
            set url $words[$i]
        end
    end
    timeout 1 pawl $url ls --names 2>/dev/null | string match -rv '\\\\'
end

complete -c pawl -f
complete -c pawl -l url -x -a 'redis:// redis+unix:/// file:///' -d 'where the locks are'
complete -c pawl -s h -l help -d 'explain it'
complete -c pawl -n __pawl_needs_command -s V -l version -d 'print the version'

complete -c pawl -n __pawl_needs_command -a run -d 'run a command while holding a lock'
complete -c pawl -n __pawl_needs_command -a ls -d 'list the locks that are held'
complete -c pawl -n __pawl_needs_command -a show -d 'show one lock'
complete -c pawl -n __pawl_needs_command -a watch -d 'print what happens to locks'
complete -c pawl -n __pawl_needs_command -a top -d 'a live view of the locks'
complete -c pawl -n __pawl_needs_command -a break -d 'take a lock away from whoever holds it'
complete -c pawl -n __pawl_needs_command -a doctor -d 'is this server fit to keep locks?'
complete -c pawl -n __pawl_needs_command -a bench -d 'measure what locks cost here'

complete -c pawl -n __pawl_needs_command -a help -d 'explain pawl or a command'
complete -c pawl -n '__pawl_needs_name help' -a 'run ls show watch top break doctor bench'

complete -c pawl -n '__pawl_needs_name run ls show watch top break' -a '(__pawl_names)'

complete -c pawl -n '__pawl_needs_name run' -s n -l no-wait -d 'do not wait'
complete -c pawl -n '__pawl_needs_name run' -s w -l wait -x -d 'wait at most so long'
complete -c pawl -n '__pawl_needs_name run' -s E -l busy-exit -x -d 'exit status if it is busy'
complete -c pawl -n '__pawl_in run' -s c -x -d 'run a line by the shell'
complete -c pawl -n '__pawl_needs_name run' -l lease -x -d 'how long it outlives its holder'
complete -c pawl -n '__pawl_needs_name run' -l max-hold -x -d 'the longest hold'
complete -c pawl -n '__pawl_needs_name run' -l grace -x -d 'from TERM to KILL'
complete -c pawl -n '__pawl_needs_name run' -l kind -x -a 'mutex fair read write spin plain semaphore:' -d kind
complete -c pawl -n '__pawl_needs_name run' -l redlock -x -a 'redis:// redis+unix:///' -d 'a majority keeps it'
complete -c pawl -n '__pawl_needs_name run' -s q -l quiet -d 'say nothing about waiting'
complete -c pawl -n __pawl_needs_program -F -a '(__fish_complete_subcommand --commandline \
    (__pawl_operands)[3..] (commandline -ct))'

complete -c pawl -n '__pawl_in ls show watch doctor bench' -l json -d 'JSON'
complete -c pawl -n '__pawl_in ls' -l names -d 'only the names'
complete -c pawl -n '__pawl_in show' -s q -l quiet -d 'answer by the exit status'
complete -c pawl -n '__pawl_in show' -l kind -x -a 'semaphore latch' -d 'what it is'
complete -c pawl -n '__pawl_in watch top' -l every -x -d 'how often to look'
complete -c pawl -n '__pawl_in watch' -l for -x -d 'end after this time'
complete -c pawl -n '__pawl_in watch top' -l count -x -d 'end after so many'
complete -c pawl -n '__pawl_in top' -l sort -x -a 'waiters held rate name' -d 'the order'
complete -c pawl -n '__pawl_in break' -s y -l yes -d 'do not ask'
complete -c pawl -n '__pawl_in doctor' -l strict -d 'warnings count as unfit'
complete -c pawl -n '__pawl_in bench' -l seconds -x -d 'how long in all'
complete -c pawl -n '__pawl_in bench' -l threads -x -d 'for the loads with several'
