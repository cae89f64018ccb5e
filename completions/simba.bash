# Completion of simba(1) for bash. What is offered is held to `simba --help` by tests/install.
#
# The package bash-completion loads it by itself. Without that package source it; the command of `simba lock` is
# then completed as a command with files, not by the completion of its own.

_simba_verbs='lock lead schedule acquire renew status watch top dashboard release handover semaphore prune migrate doctor init tck bench help'
_simba_questions='cycle beside handover many contention failover is-owner'

# The options of a verb; without one those of all commands.
_simba_options() {
    echo '-u --url -c --config --ttl --transition --id --exact-id --log-level --log-format'
    echo '-q --quiet --no-color -h --help -V --version'
    case $1 in
        lock)
            echo '-n --no-wait -w --wait -E --contended-code -k --kill-after --stop-timeout'
            echo '--slots --all --no-hold --metrics-file'
            echo '--once-per --retry-failed --hold-at-least --hold-at-most --leave-running --note --pass-notify'
            ;;
        lead)
            echo '--slots -w --wait --restart --restart-delay --restart-delay-max --yield-after --health'
            echo '--health-every --priority --priority-after -k --kill-after --stop-timeout --note --pass-notify --listen'
            ;;
        schedule)
            echo '--every --at --cron --timezone --missed --strategy --initial-delay -w --wait'
            echo '-k --kill-after --stop-timeout --hold-at-least --hold-at-most --note --pass-notify --listen'
            ;;
        acquire) echo '--for --keep -n --no-wait -w --wait -E --contended-code --note --json' ;;
        renew) echo '--fence --for --json' ;;
        status) echo '-a --all --held --json' ;;
        watch) echo '--json' ;;
        top) echo '--interval --once -a --all' ;;
        dashboard) echo '--listen --interval --history --allow-handover' ;;
        release) echo '--fence -f --force --json' ;;
        handover) echo '--to -w --wait --anyway --json' ;;
        semaphore) echo '--json' ;;
        prune) echo '--unused-for -n --dry-run --json' ;;
        migrate) echo '-n --no-wait -w --wait --dry-run --json' ;;
        doctor) echo '--read-only --json' ;;
        init) echo '--print' ;;
        tck) echo '--case --seconds --contenders --processes --list' ;;
        bench) echo '--count --rounds --mutexes --contenders --processes --window --json' ;;
    esac
}

# Options that take the next word.
_simba_takes_value() {
    case $1 in
        -u | --url | -c | --config | --ttl | --transition | --id | --exact-id | --log-level | -w | --wait) ;;
        --log-format | --for | --keep | --fence | --interval) ;;
        -E | --contended-code | --slots | --once-per | -k | --kill-after | --hold-at-least | --hold-at-most | --note) ;;
        --restart | --restart-delay | --restart-delay-max | --stop-timeout) ;;
        --yield-after | --health | --health-every | --priority | --priority-after | --to) ;;
        --every | --at | --cron | --timezone | --missed | --strategy | --initial-delay) ;;
        --unused-for | --listen | --metrics-file | --history | --allow-handover) ;;
        --case | --seconds | --contenders | --processes) ;;
        --count | --rounds | --mutexes | --window) ;;
        *) return 1 ;;
    esac
}

# The files that begin with a word, quoted as the shell wants them, folders with a slash.
_simba_files() {
    compopt -o filenames 2>/dev/null # refused where nobody completes, such as in a test
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# The command that begins with the word at $1 of `words`, or what stands behind it.
_simba_command() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "${places[$1]}"
    elif (($1 < last)); then
        _simba_files "${words[last]}"
    else
        mapfile -t COMPREPLY < <(compgen -c -- "${words[last]}")
    fi
}

_simba_value() {
    case $1 in
        -c | --config) _simba_files "$2" ;;
        --log-format) mapfile -t COMPREPLY < <(compgen -W 'text json' -- "$2") ;;
        --log-level) mapfile -t COMPREPLY < <(compgen -W 'none error warn info debug' -- "$2") ;;
        --restart) mapfile -t COMPREPLY < <(compgen -W 'always on-failure never' -- "$2") ;;
        --strategy) mapfile -t COMPREPLY < <(compgen -W 'fixed-rate fixed-delay' -- "$2") ;;
        --case) mapfile -t COMPREPLY < <(compgen -W "$(simba tck --list 2>/dev/null)" -- "$2") ;;
    esac
}

# The names on the store that the line names. A store that does not answer must not hold up the shell. All users can
# read the command line of `timeout`; the environment is private.
_simba_mutexes() {
    local -x SIMBA_URL=${SIMBA_URL-}
    case $1 in
        -u | --url)
            SIMBA_URL=$2
            shift 2
            ;;
    esac
    timeout 1 simba "$@" status --json 2>/dev/null | sed -n 's/.*{"mutex":"\([^-"\\][^"\\]*\)".*/\1/p'
}

# Offers the names as the shell would have them typed: one word each, whatever is in them.
_simba_offer_mutexes() {
    local word=$1 name typed
    shift
    while IFS= read -r name; do
        printf -v typed %q "$name"
        # Readline has begun a new word behind the last colon or equals sign.
        [[ $typed != "$word"* ]] || COMPREPLY+=("${typed#"${word%"${word##*[:=]}"}"}")
    done < <(_simba_mutexes "$@")
}

# Joins what readline takes apart, such as sqlite:jobs.db, into `words`; `last` is the one to complete, and
# `places` tells where each begins in COMP_WORDS.
_simba_join() {
    local i
    words=("${COMP_WORDS[0]}")
    places=(0)
    for ((i = 1; i <= COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} =~ ^[:=]+$ || ${COMP_WORDS[i - 1]} =~ ^[:=]+$ ]]; then
            words[${#words[@]} - 1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
            places+=("$i")
        fi
    done
    last=$((${#words[@]} - 1))
}

_simba() {
    local verb='' operands=0 from='' i last word
    local -a store=() words places

    COMPREPLY=()
    _simba_join
    word=${words[last]}
    for ((i = 1; i < last; i++)); do
        local before=${words[i]}
        if [[ $before == -- ]]; then
            operands=2
            ((i++))
            break
        elif _simba_takes_value "$before"; then
            if ((i + 1 == last)); then
                _simba_value "$before" "$word"
                return
            fi
            [[ $before != -u && $before != --url && $before != -c && $before != --config ]] ||
                store=("$before" "${words[i + 1]}")
            ((i++))
        elif [[ $before != -* ]]; then
            if [[ -z $verb ]]; then
                verb=$before
            elif ((++operands == 2)) && [[ $verb != migrate ]]; then
                break
            elif ((operands == 1)); then
                from=$before
            fi
        fi
    done
    case $verb in
        lock | lead | schedule)
            if ((operands == 2)); then
                _simba_command "$i"
                return
            fi
            ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_simba_options "$verb")" -- "$word")
    elif [[ $verb == bench ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$_simba_questions" -- "$word")
    elif [[ -z $verb || $verb == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$_simba_verbs" -- "$word")
    elif [[ $verb == migrate ]]; then
        ((operands < 2)) || _simba_offer_mutexes "$word" -u "$from"
    elif [[ $operands == 0 || $verb == status || $verb == watch || $verb == prune ]]; then
        _simba_offer_mutexes "$word" "${store[@]}"
    elif [[ $verb == lock || $verb == lead || $verb == schedule ]]; then
        _simba_command "$last"
    fi
}

complete -o default -F _simba simba
