# Completion of iocreplay for bash. Made by `make pages`: edit the program's options.
# shellcheck shell=bash

_iocreplay() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W 'info verify puts traces why top profile graph values at diff undo alarms last console logs health metrics io stuck clients net iocs records report export follow redact --help --version' -- "$current")
        return
    fi
    case "$command $before" in
    'info --format' | \
        'verify --format' | \
        'why --format' | \
        'top --format' | \
        'undo --format' | \
        'alarms --format' | \
        'last --format' | \
        'console --format' | \
        'health --format' | \
        'io --format' | \
        'stuck --format' | \
        'clients --format' | \
        'net --format' | \
        'iocs --format' | \
        'records --format' | \
        'follow --format')
        mapfile -t COMPREPLY < <(compgen -W 'text jsonl csv' -- "$current")
        return
        ;;
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
        'logs -o' | \
        'logs --output' | \
        'health --svg' | \
        'health -o' | \
        'health --output' | \
        'metrics -o' | \
        'metrics --output' | \
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
        'report --output' | \
        'export -o' | \
        'export --output' | \
        'follow --textfile' | \
        'follow --state' | \
        'follow -o' | \
        'follow --output' | \
        'redact --map' | \
        'redact -o' | \
        'redact --output')
        compopt -o default
        return
        ;;
    'info --clock-offset' | \
        'verify --clock-offset' | \
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
        'puts --pod' | \
        'puts --host' | \
        'puts --clock-offset' | \
        'traces --otlp' | \
        'traces --skip-spans' | \
        'traces --since' | \
        'traces --until' | \
        'traces --pv' | \
        'traces --exclude' | \
        'traces --user' | \
        'traces --client' | \
        'traces --ioc' | \
        'traces --pod' | \
        'traces --host' | \
        'traces --clock-offset' | \
        'why --at' | \
        'why --since' | \
        'why --ioc' | \
        'why --pod' | \
        'why --host' | \
        'why --clock-offset' | \
        'top --by' | \
        'top -n' | \
        'top --rows' | \
        'top --since' | \
        'top --until' | \
        'top --pv' | \
        'top --exclude' | \
        'top --user' | \
        'top --client' | \
        'top --ioc' | \
        'top --pod' | \
        'top --host' | \
        'top --clock-offset' | \
        'profile --since' | \
        'profile --until' | \
        'profile --pv' | \
        'profile --exclude' | \
        'profile --user' | \
        'profile --client' | \
        'profile --ioc' | \
        'profile --pod' | \
        'profile --host' | \
        'profile --clock-offset' | \
        'graph --since' | \
        'graph --until' | \
        'graph --pv' | \
        'graph --exclude' | \
        'graph --user' | \
        'graph --client' | \
        'graph --ioc' | \
        'graph --pod' | \
        'graph --host' | \
        'graph --clock-offset' | \
        'values --exclude' | \
        'values --since' | \
        'values --until' | \
        'values --user' | \
        'values --client' | \
        'values --ioc' | \
        'values --pod' | \
        'values --host' | \
        'values --clock-offset' | \
        'at --pv' | \
        'at --exclude' | \
        'at --ioc' | \
        'at --pod' | \
        'at --host' | \
        'at --clock-offset' | \
        'diff --pv' | \
        'diff --exclude' | \
        'diff --user' | \
        'diff --client' | \
        'diff --ioc' | \
        'diff --pod' | \
        'diff --host' | \
        'diff --clock-offset' | \
        'undo --since' | \
        'undo --until' | \
        'undo --pv' | \
        'undo --exclude' | \
        'undo --user' | \
        'undo --client' | \
        'undo --ioc' | \
        'undo --pod' | \
        'undo --host' | \
        'undo --clock-offset' | \
        'alarms --severity' | \
        'alarms --since' | \
        'alarms --until' | \
        'alarms --pv' | \
        'alarms --exclude' | \
        'alarms --user' | \
        'alarms --client' | \
        'alarms --ioc' | \
        'alarms --pod' | \
        'alarms --host' | \
        'alarms --clock-offset' | \
        'last --until' | \
        'last --ioc' | \
        'last --pod' | \
        'last --host' | \
        'last --clock-offset' | \
        'console --since' | \
        'console --until' | \
        'console --pv' | \
        'console --exclude' | \
        'console --ioc' | \
        'console --pod' | \
        'console --host' | \
        'console --clock-offset' | \
        'logs --kind' | \
        'logs --otlp' | \
        'logs --skip-records' | \
        'logs --since' | \
        'logs --until' | \
        'logs --pv' | \
        'logs --exclude' | \
        'logs --user' | \
        'logs --client' | \
        'logs --ioc' | \
        'logs --pod' | \
        'logs --host' | \
        'logs --clock-offset' | \
        'health --since' | \
        'health --until' | \
        'health --ioc' | \
        'health --pod' | \
        'health --host' | \
        'health --clock-offset' | \
        'metrics --step' | \
        'metrics --otlp' | \
        'metrics --skip-points' | \
        'metrics --since' | \
        'metrics --until' | \
        'metrics --ioc' | \
        'metrics --pod' | \
        'metrics --host' | \
        'metrics --clock-offset' | \
        'io --darshan' | \
        'io --darshan-text' | \
        'io --since' | \
        'io --until' | \
        'io --ioc' | \
        'io --pod' | \
        'io --host' | \
        'io --clock-offset' | \
        'stuck --since' | \
        'stuck --until' | \
        'stuck --pv' | \
        'stuck --exclude' | \
        'stuck --ioc' | \
        'stuck --pod' | \
        'stuck --host' | \
        'stuck --clock-offset' | \
        'clients --since' | \
        'clients --until' | \
        'clients --pv' | \
        'clients --exclude' | \
        'clients --user' | \
        'clients --client' | \
        'clients --ioc' | \
        'clients --pod' | \
        'clients --host' | \
        'clients --clock-offset' | \
        'net --kind' | \
        'net --since' | \
        'net --until' | \
        'net --pv' | \
        'net --exclude' | \
        'net --user' | \
        'net --client' | \
        'net --ioc' | \
        'net --pod' | \
        'net --host' | \
        'net --clock-offset' | \
        'iocs --ioc' | \
        'iocs --pod' | \
        'iocs --host' | \
        'iocs --clock-offset' | \
        'records --pv' | \
        'records --exclude' | \
        'records --ioc' | \
        'records --pod' | \
        'records --host' | \
        'records --clock-offset' | \
        'report --since' | \
        'report --until' | \
        'report --pv' | \
        'report --exclude' | \
        'report --user' | \
        'report --client' | \
        'report --ioc' | \
        'report --pod' | \
        'report --host' | \
        'report --clock-offset' | \
        'export --table' | \
        'export --since' | \
        'export --until' | \
        'export --pv' | \
        'export --exclude' | \
        'export --user' | \
        'export --client' | \
        'export --ioc' | \
        'export --pod' | \
        'export --host' | \
        'export --clock-offset' | \
        'follow --what' | \
        'follow --otlp' | \
        'follow --signals' | \
        'follow --syslog' | \
        'follow --interval' | \
        'follow --spool-size' | \
        'follow --since' | \
        'follow --pv' | \
        'follow --exclude' | \
        'follow --user' | \
        'follow --client' | \
        'follow --ioc' | \
        'follow --pod' | \
        'follow --host' | \
        'follow --clock-offset' | \
        'redact --values' | \
        'redact --clock-offset')
        : # any text
        return
        ;;
    'puts --format')
        mapfile -t COMPREPLY < <(compgen -W 'text jsonl csv caputlog caputlog-json caput' -- "$current")
        return
        ;;
    'traces --format')
        mapfile -t COMPREPLY < <(compgen -W 'text otlp otlp-proto otlp-proto-delimited zipkin perfetto jsonl csv' -- "$current")
        return
        ;;
    'profile --format')
        mapfile -t COMPREPLY < <(compgen -W 'folded speedscope text jsonl csv' -- "$current")
        return
        ;;
    'graph --format')
        mapfile -t COMPREPLY < <(compgen -W 'text dot mermaid jsonl csv' -- "$current")
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
    'logs --format')
        mapfile -t COMPREPLY < <(compgen -W 'text jsonl csv otlp otlp-proto otlp-proto-delimited' -- "$current")
        return
        ;;
    'metrics --format')
        mapfile -t COMPREPLY < <(compgen -W 'openmetrics otlp otlp-proto otlp-proto-delimited text jsonl csv' -- "$current")
        return
        ;;
    'export --parquet' | \
        'export --ndjson' | \
        'export --csv' | \
        'follow --spool')
        compopt -o dirnames
        return
        ;;
    esac
    case $command in
    info) options='--help --format --json --utc --no-limit -o --output --clock-offset' ;;
    verify) options='--help --format --json --utc --no-limit -o --output --clock-offset' ;;
    puts) options='--help --format --level --burst --prefix --metadata --timing --all --updates --since --until --pv --exclude --user --client --ioc --pod --host --follow --utc --no-limit -o --output --clock-offset' ;;
    traces) options='--help --format --otlp --skip-spans --since --until --pv --exclude --user --client --ioc --pod --host --follow --utc --no-limit -o --output --clock-offset' ;;
    why) options='--help --alarm --at --since --ioc --pod --host --format --json --utc --no-limit -o --output --clock-offset' ;;
    top) options='--help --by -n --rows --format --since --until --pv --exclude --user --client --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    profile) options='--help --format --since --until --pv --exclude --user --client --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    graph) options='--help --format --since --until --pv --exclude --user --client --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    values) options='--help --format --exclude --plot --svg --since --until --user --client --ioc --pod --host --follow --utc --no-limit -o --output --clock-offset' ;;
    at) options='--help --format --pv --exclude --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    diff) options='--help --format --pv --exclude --user --client --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    undo) options='--help --since --format --json --until --pv --exclude --user --client --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    alarms) options='--help --format --severity --all --since --until --pv --exclude --user --client --ioc --pod --host --follow --utc --no-limit -o --output --clock-offset' ;;
    last) options='--help --until --ioc --pod --host --format --json --utc --no-limit -o --output --clock-offset' ;;
    console) options='--help --format --since --until --pv --exclude --ioc --pod --host --follow --utc --no-limit -o --output --clock-offset' ;;
    logs) options='--help --format --kind --otlp --skip-records --since --until --pv --exclude --user --client --ioc --pod --host --follow --utc --no-limit -o --output --clock-offset' ;;
    health) options='--help --plot --svg --format --json --since --until --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    metrics) options='--help --format --step --otlp --skip-points --since --until --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    io) options='--help --darshan --darshan-text --format --json --since --until --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    stuck) options='--help --format --since --until --pv --exclude --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    clients) options='--help --format --channels --since --until --pv --exclude --user --client --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    net) options='--help --format --all --kind --since --until --pv --exclude --user --client --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    iocs) options='--help --format --json --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    records) options='--help --format --json --pv --exclude --ioc --pod --host --no-limit -o --output --clock-offset' ;;
    report) options='--help --since --until --pv --exclude --user --client --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    export) options='--help --parquet --ndjson --csv --table --since --until --pv --exclude --user --client --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    follow) options='--help --format --what --once --otlp --signals --syslog --textfile --interval --spool --spool-size --state --position --since --pv --exclude --user --client --ioc --pod --host --utc --no-limit -o --output --clock-offset' ;;
    redact) options='--help --keep-names --values --map --no-limit -o --output --clock-offset' ;;
    *) return ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
        return
    fi
    case $command in
    info | verify | puts | traces | why | top | profile | graph | values | at | diff | undo | alarms | last | console | logs | health | metrics | io | stuck | clients | net | iocs | records | report | export | follow | redact) compopt -o default ;;
    *) ;;
    esac
}
complete -F _iocreplay iocreplay
