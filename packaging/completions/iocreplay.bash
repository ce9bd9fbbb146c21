# Completion of iocreplay for bash. Made by `make pages`: edit the program's options.
# shellcheck shell=bash

_iocreplay() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W 'info verify puts traces why iocs records --help --version' -- "$current")
        return
    fi
    case "$command $before" in
    'info -o' | \
        'info --output' | \
        'verify -o' | \
        'verify --output' | \
        'puts -o' | \
        'puts --output' | \
        'traces -o' | \
        'traces --output' | \
        'why -o' | \
        'why --output' | \
        'iocs -o' | \
        'iocs --output' | \
        'records -o' | \
        'records --output')
        compopt -o default
        return
        ;;
    'puts --format')
        mapfile -t COMPREPLY < <(compgen -W 'text jsonl csv caputlog caputlog-json caput' -- "$current")
        return
        ;;
    'puts --level' | \
        'puts --burst' | \
        'puts --prefix' | \
        'puts --metadata' | \
        'puts --since' | \
        'puts --until' | \
        'puts --pv' | \
        'puts --exclude' | \
        'puts --user' | \
        'puts --client' | \
        'puts --ioc' | \
        'puts --host' | \
        'traces --since' | \
        'traces --until' | \
        'traces --pv' | \
        'traces --exclude' | \
        'traces --user' | \
        'traces --client' | \
        'traces --ioc' | \
        'traces --host' | \
        'why --at' | \
        'why --since' | \
        'why --ioc' | \
        'why --host' | \
        'iocs --ioc' | \
        'iocs --host' | \
        'records --pv' | \
        'records --exclude' | \
        'records --ioc' | \
        'records --host')
        : # any text
        return
        ;;
    'traces --format')
        mapfile -t COMPREPLY < <(compgen -W 'text otlp' -- "$current")
        return
        ;;
    esac
    case $command in
    info) options='--help --json --utc --no-limit -o --output' ;;
    verify) options='--help --json --utc --no-limit -o --output' ;;
    puts) options='--help --format --level --burst --prefix --metadata --timing --all --since --until --pv --exclude --user --client --ioc --host --utc --no-limit -o --output' ;;
    traces) options='--help --format --since --until --pv --exclude --user --client --ioc --host --utc --no-limit -o --output' ;;
    why) options='--help --at --since --ioc --host --json --utc --no-limit -o --output' ;;
    iocs) options='--help --json --ioc --host --utc --no-limit -o --output' ;;
    records) options='--help --json --pv --exclude --ioc --host --no-limit -o --output' ;;
    *) return ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
        return
    fi
    case $command in
    info | verify | puts | traces | why | iocs | records) compopt -o default ;;
    *) ;;
    esac
}
complete -F _iocreplay iocreplay
