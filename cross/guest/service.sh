#!/bin/sh
# Run in a guest by the init system that is tried, as its last service: iocrec as a service beside it, with an
# imitation of an IOC to be recorded. What comes out is examined by cross/services.py.
#
# usage: service.sh systemd|openrc|sysv
exec </dev/null >/dev/console 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
log=/var/log/iocrec

up() { cut -d ' ' -f 1 /proc/uptime; }
case $1 in
systemd)
    service() { systemctl --no-pager "$1" iocrec; }
    main() { systemctl show --property MainPID --value iocrec; }
    ;;
openrc)
    service() { rc-service --nocolor iocrec "$1"; }
    main() { cat /run/iocrec.pid 2>/dev/null; }
    ;;
sysv)
    service() { /etc/init.d/iocrec "$1"; }
    main() { cat /var/run/iocrec.pid 2>/dev/null; }
    ;;
esac

# does NAME ACTION: what the service manager says goes to a file, its exit code to the console
does() {
    service "$2" >>"/tmp/$1.txt" 2>&1
    echo "EXIT $1 $?"
}

# not a second longer than needed, since these machines are emulated
hits() {
    for _ in $(seq 60); do
        iocrec status --dir $log --json 2>/dev/null | grep -q '"iocs":\[{' && break
        sleep 1
    done
    sleep 3
}

# Stops the service while somebody looks when the process itself is gone.
stop() {
    pid=$(main)
    begin=$(up)
    { while [ -d "/proc/$pid" ]; do usleep 20000; done; echo "TIME $1-process $begin $(up)"; } &
    looking=$!
    does "$1" stop
    echo "TIME $1 $begin $(up)"
    wait $looking
}

echo 3 >/proc/sys/kernel/printk
mkdir -p /tmp
# some machines have no clock, and begin in 1970
date -s "@$(cat /clock)" >/dev/null
echo "BEGIN $(uname -r) up $(up)"
echo "FIRST $(basename "$(readlink /proc/1/exe)")"
IOC=guest imitation 600 &
ioc=$!
does start start
hits
does status status
cp "/proc/$(main)/status" /tmp/process.txt
ls -ld $log $log/*.iocrec >/tmp/modes.txt
iocrec status --dir $log >/tmp/recorder.txt 2>&1
echo "EXIT recorder $?"
stop stop
does stopped status
does again start
hits
killed=$(main)
kill -9 "$killed"
if [ "$1" = systemd ]; then
    # restarted by itself
    for _ in $(seq 60); do
        [ "$(main)" != "$killed" ] && [ "$(main)" != 0 ] && break
        sleep 1
    done
else
    while [ -d "/proc/$killed" ]; do sleep 1; done
    does killed status
    does restart restart
fi
hits
does after status
stop end
kill $ioc
wait $ioc
echo "EXIT ioc $?"
echo FILES
tar -C / -c tmp var/log | gzip | base64
echo END
poweroff -f
