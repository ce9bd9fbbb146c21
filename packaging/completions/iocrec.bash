# Completion of iocrec for bash. Made by `make pages`: edit the program's options.
# shellcheck shell=bash

_iocrec() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W 'record watch check mark status cat version --help --version' -- "$current")
        return
    fi
    case "$command $before" in
    'record --dir' | \
        'mark --dir' | \
        'status --dir' | \
        'cat --dir')
        compopt -o dirnames
        return
        ;;
    'record --max-disk' | \
        'record --max-age' | \
        'record --pin-before' | \
        'record --pin-after' | \
        'record --pin-share' | \
        'record --pin-on' | \
        'record --pin-on-put' | \
        'record --flush' | \
        'record --sync' | \
        'record --time-step' | \
        'record --time-resolution' | \
        'record --retain' | \
        'record --user' | \
        'record --pod' | \
        'record --duration' | \
        'record --iface' | \
        'record --port' | \
        'record --pid' | \
        'record --only' | \
        'record --exclude' | \
        'record --console-rate' | \
        'record --thin' | \
        'record --max-chains' | \
        'record --buffer' | \
        'watch --user' | \
        'watch --pod' | \
        'watch --duration' | \
        'watch --iface' | \
        'watch --port' | \
        'watch --pid' | \
        'watch --only' | \
        'watch --exclude' | \
        'watch --console-rate' | \
        'watch --thin' | \
        'watch --max-chains' | \
        'watch --buffer' | \
        'check --user' | \
        'check --pod' | \
        'cat --from')
        : # any text
        return
        ;;
    'record --read' | \
        'watch --read')
        compopt -o default
        return
        ;;
    'record --tier' | \
        'watch --tier')
        mapfile -t COMPREPLY < <(compgen -W 'auto ring perf packet' -- "$current")
        return
        ;;
    esac
    case $command in
    record) options='--help --dir --max-disk --max-age --pin-before --pin-after --pin-share --pin-on --pin-on-put --flush --sync --time-step --time-resolution --retain --no-snapshots --user --pod --duration --iface --port --read --pid --only --exclude --no-puts --no-net --no-process --no-console --console-rate --no-resources --io --thin --max-chains --no-command-lines --tier --buffer' ;;
    watch) options='--help --user --pod --duration --iface --port --read --pid --only --exclude --no-puts --no-net --no-process --no-console --console-rate --no-resources --io --thin --max-chains --no-command-lines --tier --buffer' ;;
    check) options='--help --user --pod --json' ;;
    mark) options='--help --dir' ;;
    status) options='--help --dir --json' ;;
    cat) options='--help --from --no-follow --dir' ;;
    version) options='--help' ;;
    *) return ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
        return
    fi
    case $command in
    *) ;;
    esac
}
complete -F _iocrec iocrec
