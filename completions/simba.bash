# Completion of simba(1) for bash. What is offered is held to `simba --help` by tests/install.

_simba_verbs='lock lead schedule status watch release init tck help'

# The options of a verb; without one those of all commands.
_simba_options() {
    echo '-u --url -c --config --ttl --transition --id --log-level -h --help -V --version'
    case $1 in
        lock)
            echo '-n --no-wait -w --wait -E --contended-code -k --kill-after --hold-at-least'
            echo '--hold-at-most --note --pass-notify -q --quiet'
            ;;
        lead)
            echo '--restart --restart-delay --restart-delay-max -k --kill-after --stop-timeout'
            echo '--note --pass-notify -q --quiet'
            ;;
        schedule)
            echo '--every --strategy --initial-delay -k --kill-after --stop-timeout --hold-at-least'
            echo '--hold-at-most --note --pass-notify -q --quiet'
            ;;
        status | watch) echo '--json' ;;
        release) echo '-f --force --json' ;;
        init) echo '--print' ;;
        tck) echo '--case --seconds --contenders --processes --list' ;;
    esac
}

# Options that take the next word.
_simba_takes_value() {
    case $1 in
        -u | --url | -c | --config | --ttl | --transition | --id | --log-level | -w | --wait) ;;
        -E | --contended-code | -k | --kill-after | --hold-at-least | --hold-at-most | --note) ;;
        --restart | --restart-delay | --restart-delay-max | --stop-timeout) ;;
        --every | --strategy | --initial-delay) ;;
        --case | --seconds | --contenders | --processes) ;;
        *) return 1 ;;
    esac
}

_simba_value() {
    case $1 in
        -c | --config) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --log-level) mapfile -t COMPREPLY < <(compgen -W 'none error warn info debug' -- "$2") ;;
        --restart) mapfile -t COMPREPLY < <(compgen -W 'always on-failure never' -- "$2") ;;
        --strategy) mapfile -t COMPREPLY < <(compgen -W 'fixed-rate fixed-delay' -- "$2") ;;
        --case) mapfile -t COMPREPLY < <(compgen -W "$(simba tck --list 2>/dev/null)" -- "$2") ;;
    esac
}

# The names on the store that the line names. A store that does not answer must not hold up the shell.
_simba_mutexes() {
    timeout 1 simba "$@" status --json 2>/dev/null | sed -n 's/.*{"mutex":"\([^"\\]*\)".*/\1/p'
}

_simba() {
    local word=${COMP_WORDS[COMP_CWORD]} verb='' operands=0 i
    local -a store=()

    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        local before=${COMP_WORDS[i]}
        if [[ $before == -- ]]; then
            operands=2
            ((i++))
            break
        elif _simba_takes_value "$before"; then
            if ((i + 1 == COMP_CWORD)); then
                _simba_value "$before" "$word"
                return
            fi
            [[ $before != -u && $before != --url && $before != -c && $before != --config ]] ||
                store=("$before" "${COMP_WORDS[i + 1]}")
            ((i++))
        elif [[ $before != -* ]]; then
            if [[ -z $verb ]]; then
                verb=$before
            elif ((++operands == 2)); then
                break
            fi
        fi
    done
    case $verb in
        lock | lead | schedule)
            if ((operands == 2)); then
                declare -F _command_offset >/dev/null && _command_offset "$i"
                return
            fi
            ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_simba_options "$verb")" -- "$word")
    elif [[ -z $verb || $verb == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$_simba_verbs" -- "$word")
    elif [[ $operands == 0 || $verb == status || $verb == watch ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_simba_mutexes "${store[@]}")" -- "$word")
    elif [[ $verb == lock || $verb == lead || $verb == schedule ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$word")
    fi
}

complete -F _simba simba
