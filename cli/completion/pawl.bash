# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# bash completion for pawl: commands, options and their words, names of locks that are held (asked
# of the backend, for at most a second), and for `pawl run` the program. Needs nothing but bash.

# The options of a command, those with a value marked by "=".
_pawl_options() {
    case $1 in
    '') echo '--url= --version --help' ;;
    run) echo '--no-wait --wait= --busy-exit= --lease= --max-hold= --grace= --kind= --redlock= ' \
        '--quiet -n -w= -E= -q -c= --url= --help' ;;
    ls) echo '--json --names --url= --help' ;;
    show) echo '--json --quiet -q --kind= --url= --help' ;;
    watch) echo '--every= --for= --count= --json --url= --help' ;;
    top) echo '--every= --count= --sort= --url= --help' ;;
    break) echo '--yes -y --url= --help' ;;
    doctor) echo '--strict --json --url= --help' ;;
    bench) echo '--seconds= --threads= --json --url= --help' ;;
    esac
}

_pawl_takes_value() {
    case $2 in
    -w | -E | -c) [[ $1 == run ]] ;;
    *) [[ " $(_pawl_options "$1") " == *" $2= "* ]] ;;
    esac
}

# What an option's value may be. Nothing else is offered there, no file names either.
_pawl_values() {
    case $1 in
    --kind) [[ $_pawl_command == show ]] && echo 'semaphore latch' ||
        echo 'mutex fair read write spin plain semaphore:' ;;
    --sort) echo 'waiters held rate name' ;;
    --url) echo 'redis:// redis+unix:/// file:///' ;;
    --redlock) echo 'redis:// redis+unix:///' ;;
    *) echo ;;
    esac
}

# The names of locks; those that would have to be quoted are left out.
_pawl_names() {
    timeout 1 pawl ${_pawl_url:+--url "$_pawl_url"} ls --names 2>/dev/null | grep -v '[\\"'"'"'$`[:space:]]'
}

# Offer what begins with the word that is being typed.
_pawl_offer() {
    local IFS=$' \t\n'
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$_pawl_word")
}

# bash cuts words at ":" and "=" and wants only what follows.
_pawl_trim() {
    local cut=${_pawl_word%"${_pawl_word##*[:=]}"} i
    [[ $COMP_WORDBREAKS == *:* ]] || cut=${_pawl_word%"${_pawl_word##*=}"}
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]#"$cut"}
    done
}

# Walk over the words before the one that is being typed: which command, how many operands, which
# option still wants its value.
_pawl_walk() {
    local word open=yes
    _pawl_command='' _pawl_operands=0 _pawl_option='' _pawl_url=''
    for word; do
        if [[ -n $_pawl_option ]]; then
            [[ $_pawl_option == --url ]] && _pawl_url=$word
            _pawl_option=''
        elif [[ $open == yes && $word == -- ]]; then
            open=no
        elif [[ $open == yes && $word == --url=* ]]; then
            _pawl_url=${word#*=}
        elif [[ $open == yes && $word == -?* ]]; then
            _pawl_takes_value "$_pawl_command" "$word" && _pawl_option=$word
        elif [[ -z $_pawl_command ]]; then
            _pawl_command=$word
        else
            ((++_pawl_operands))
        fi
    done
}

_pawl_complete() {
    if [[ -n $_pawl_option ]]; then
        _pawl_offer "$(_pawl_values "$_pawl_option")"
        compopt +o default 2>/dev/null
    elif [[ $_pawl_word == --*=* ]]; then
        local option=${_pawl_word%%=*} value word=$_pawl_word words=''
        for value in $(_pawl_values "$option"); do
            words+=" $option=$value"
        done
        _pawl_word=$word _pawl_offer "$words"
        compopt +o default 2>/dev/null
    elif [[ $_pawl_command == run && $_pawl_operands -ge 1 && $_pawl_word != -* ]]; then
        # The program, then whatever it takes: readline offers files.
        ((_pawl_operands > 1)) || mapfile -t COMPREPLY < <(compgen -c -- "$_pawl_word")
    elif [[ $_pawl_word == -* ]]; then
        ((_pawl_operands > 1)) && [[ $_pawl_command == run ]] && return
        _pawl_offer "$(_pawl_options "$_pawl_command" | tr -d =)"
    elif [[ -z $_pawl_command ]]; then
        _pawl_offer 'run ls show watch top break doctor bench help'
    elif [[ $_pawl_command == help ]]; then
        ((_pawl_operands > 0)) || _pawl_offer 'run ls show watch top break doctor bench'
        compopt +o default 2>/dev/null
    elif [[ $_pawl_operands -eq 0 && $_pawl_command =~ ^(run|ls|show|watch|top|break)$ ]]; then
        _pawl_offer "$(_pawl_names)"
        compopt +o default 2>/dev/null
    fi
}

_pawl() {
    local _pawl_word _pawl_command _pawl_operands _pawl_option _pawl_url words
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    _pawl_word=${words[-1]}
    unset 'words[-1]'
    COMPREPLY=()
    _pawl_walk "${words[@]:1}"
    _pawl_complete
    _pawl_trim
}

complete -o default -F _pawl pawl
