# Completion of iocreplay for bash. Made by `make pages`: edit the program's options.
# shellcheck shell=bash

_iocreplay() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W 'info verify puts traces why top profile graph values at diff undo alarms last console health io stuck clients net iocs records report --help --version' -- "$current")
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
        'top -o' | \
        'top --output' | \
        'profile -o' | \
        'profile --output' | \
        'graph -o' | \
        'graph --output' | \
        'values --svg' | \
        'values -o' | \
        'values --output' | \
        'at -o' | \
        'at --output' | \
        'diff -o' | \
        'diff --output' | \
        'undo -o' | \
        'undo --output' | \
        'alarms -o' | \
        'alarms --output' | \
        'last -o' | \
        'last --output' | \
        'console -o' | \
        'console --output' | \
        'health --svg' | \
        'health -o' | \
        'health --output' | \
        'io -o' | \
        'io --output' | \
        'stuck -o' | \
        'stuck --output' | \
        'clients -o' | \
        'clients --output' | \
        'net -o' | \
        'net --output' | \
        'iocs -o' | \
        'iocs --output' | \
        'records -o' | \
        'records --output' | \
        'report -o' | \
        'report --output')
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
        'traces --otlp' | \
        'traces --skip-spans' | \
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
        'top --by' | \
        'top -n' | \
        'top --rows' | \
        'top --format' | \
        'top --since' | \
        'top --until' | \
        'top --pv' | \
        'top --exclude' | \
        'top --user' | \
        'top --client' | \
        'top --ioc' | \
        'top --host' | \
        'profile --format' | \
        'profile --since' | \
        'profile --until' | \
        'profile --pv' | \
        'profile --exclude' | \
        'profile --user' | \
        'profile --client' | \
        'profile --ioc' | \
        'profile --host' | \
        'graph --format' | \
        'graph --since' | \
        'graph --until' | \
        'graph --pv' | \
        'graph --exclude' | \
        'graph --user' | \
        'graph --client' | \
        'graph --ioc' | \
        'graph --host' | \
        'values --since' | \
        'values --until' | \
        'values --ioc' | \
        'values --host' | \
        'at --pv' | \
        'at --exclude' | \
        'at --ioc' | \
        'at --host' | \
        'diff --pv' | \
        'diff --exclude' | \
        'diff --ioc' | \
        'diff --host' | \
        'undo --since' | \
        'undo --until' | \
        'undo --pv' | \
        'undo --exclude' | \
        'undo --user' | \
        'undo --client' | \
        'undo --ioc' | \
        'undo --host' | \
        'alarms --format' | \
        'alarms --severity' | \
        'alarms --since' | \
        'alarms --until' | \
        'alarms --pv' | \
        'alarms --exclude' | \
        'alarms --user' | \
        'alarms --client' | \
        'alarms --ioc' | \
        'alarms --host' | \
        'last --until' | \
        'last --ioc' | \
        'last --host' | \
        'console --format' | \
        'console --since' | \
        'console --until' | \
        'console --pv' | \
        'console --exclude' | \
        'console --ioc' | \
        'console --host' | \
        'health --format' | \
        'health --since' | \
        'health --until' | \
        'health --ioc' | \
        'health --host' | \
        'io --darshan' | \
        'io --darshan-text' | \
        'io --format' | \
        'io --since' | \
        'io --until' | \
        'io --ioc' | \
        'io --host' | \
        'stuck --format' | \
        'stuck --since' | \
        'stuck --until' | \
        'stuck --pv' | \
        'stuck --exclude' | \
        'stuck --ioc' | \
        'stuck --host' | \
        'clients --format' | \
        'clients --since' | \
        'clients --until' | \
        'clients --pv' | \
        'clients --exclude' | \
        'clients --user' | \
        'clients --client' | \
        'clients --ioc' | \
        'clients --host' | \
        'net --format' | \
        'net --kind' | \
        'net --since' | \
        'net --until' | \
        'net --pv' | \
        'net --exclude' | \
        'net --user' | \
        'net --client' | \
        'net --ioc' | \
        'net --host' | \
        'iocs --format' | \
        'iocs --ioc' | \
        'iocs --host' | \
        'records --format' | \
        'records --pv' | \
        'records --exclude' | \
        'records --ioc' | \
        'records --host' | \
        'report --since' | \
        'report --until' | \
        'report --ioc' | \
        'report --host')
        : # any text
        return
        ;;
    'traces --format')
        mapfile -t COMPREPLY < <(compgen -W 'text otlp otlp-proto otlp-proto-delimited zipkin' -- "$current")
        return
        ;;
    'values --format')
        mapfile -t COMPREPLY < <(compgen -W 'text jsonl csv databrowser' -- "$current")
        return
        ;;
    'at --format' | \
        'diff --format')
        mapfile -t COMPREPLY < <(compgen -W 'text jsonl csv caput autosave burt phoebus-snapshot phoebus-configuration' -- "$current")
        return
        ;;
    esac
    case $command in
    info) options='--help --json --utc --no-limit -o --output' ;;
    verify) options='--help --json --utc --no-limit -o --output' ;;
    puts) options='--help --format --level --burst --prefix --metadata --timing --all --since --until --pv --exclude --user --client --ioc --host --follow --utc --no-limit -o --output' ;;
    traces) options='--help --format --otlp --skip-spans --since --until --pv --exclude --user --client --ioc --host --follow --utc --no-limit -o --output' ;;
    why) options='--help --alarm --at --since --ioc --host --json --utc --no-limit -o --output' ;;
    top) options='--help --by -n --rows --format --since --until --pv --exclude --user --client --ioc --host --utc --no-limit -o --output' ;;
    profile) options='--help --format --since --until --pv --exclude --user --client --ioc --host --utc --no-limit -o --output' ;;
    graph) options='--help --format --since --until --pv --exclude --user --client --ioc --host --utc --no-limit -o --output' ;;
    values) options='--help --format --plot --svg --since --until --ioc --host --follow --utc --no-limit -o --output' ;;
    at) options='--help --format --pv --exclude --ioc --host --utc --no-limit -o --output' ;;
    diff) options='--help --format --pv --exclude --ioc --host --utc --no-limit -o --output' ;;
    undo) options='--help --since --until --pv --exclude --user --client --ioc --host --utc --no-limit -o --output' ;;
    alarms) options='--help --format --severity --all --since --until --pv --exclude --user --client --ioc --host --follow --utc --no-limit -o --output' ;;
    last) options='--help --until --ioc --host --json --utc --no-limit -o --output' ;;
    console) options='--help --format --since --until --pv --exclude --ioc --host --follow --utc --no-limit -o --output' ;;
    health) options='--help --plot --svg --format --json --since --until --ioc --host --utc --no-limit -o --output' ;;
    io) options='--help --darshan --darshan-text --format --json --since --until --ioc --host --utc --no-limit -o --output' ;;
    stuck) options='--help --format --since --until --pv --exclude --ioc --host --utc --no-limit -o --output' ;;
    clients) options='--help --format --channels --since --until --pv --exclude --user --client --ioc --host --utc --no-limit -o --output' ;;
    net) options='--help --format --all --kind --since --until --pv --exclude --user --client --ioc --host --utc --no-limit -o --output' ;;
    iocs) options='--help --format --json --ioc --host --utc --no-limit -o --output' ;;
    records) options='--help --format --json --pv --exclude --ioc --host --no-limit -o --output' ;;
    report) options='--help --since --until --ioc --host --utc --no-limit -o --output' ;;
    *) return ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
        return
    fi
    case $command in
    info | verify | puts | traces | why | top | profile | graph | values | at | diff | undo | alarms | last | console | health | io | stuck | clients | net | iocs | records | report) compopt -o default ;;
    *) ;;
    esac
}
complete -F _iocreplay iocreplay
