#!/bin/sh
# The last service that a guest's init system starts. It installs iocrec's package with dpkg, runs it as a service beside an
# imitation of an IOC, upgrades and removes it. cross/services.py examines the output.
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
    enable() { systemctl enable iocrec; }
    ;;
openrc)
    service() { rc-service --nocolor iocrec "$1"; }
    main() { cat /run/iocrec.pid 2>/dev/null; }
    enable() {
        cp /usr/share/doc/iocrec/examples/iocrec.openrc /etc/init.d/iocrec
        rc-update add iocrec default
    }
    ;;
sysv)
    service() { /etc/init.d/iocrec "$1"; }
    main() { cat /var/run/iocrec.pid 2>/dev/null; }
    enable() { :; }
    ;;
esac

# does NAME COMMAND...: writes the output to a file, and the exit code to the console
does() {
    name=$1
    shift
    "$@" >>"/tmp/$name.txt" 2>&1
    echo "EXIT $name $?"
}

# lists iocrec's files outside of /usr
files() { find /etc /var/log -name '*iocrec*' | sort >"/tmp/files-$1.txt"; }

# waits until it records, and for some hits; no longer than needed, since the machine is emulated
hits() {
    for _ in $(seq 60); do
        iocrec status --dir $log --json 2>/dev/null | grep -q '"iocs":\[{' && break
        sleep 1
    done
    sleep 3
}

# stop NAME COMMAND...: stops the service, and measures when the process ends
stop() {
    stopping=$1
    pid=$(main)
    begin=$(up)
    {
        for _ in $(seq 1000); do
            [ -d "/proc/$pid" ] || { echo "TIME $stopping-process $begin $(up)" && break; }
            usleep 20000
        done
    } &
    looking=$!
    does "$@"
    echo "TIME $stopping $begin $(up)"
    wait $looking
}

echo 3 >/proc/sys/kernel/printk
mkdir -p /tmp
# machines without a clock begin in 1970
date -s "@$(cat /clock)" >/dev/null
echo "BEGIN $(uname -r) up $(up)"
echo "FIRST $(basename "$(readlink /proc/1/exe)")"
IOC=guest imitation 600 &
ioc=$!
# by its path, since busybox's shell prefers busybox's own dpkg
begin=$(up)
does install /usr/bin/dpkg -i /packages/first.deb
echo "TIME install $begin $(up)"
files install
does enable enable
sed -i 's/^OPTIONS=.*/OPTIONS="--max-disk 32M"/' /etc/default/iocrec
does start service start
hits
does status service status
cp "/proc/$(main)/status" /tmp/process.txt
ls -ld $log $log/*.iocrec >/tmp/modes.txt
iocrec status --dir $log >/tmp/recorder.txt 2>&1
echo "EXIT recorder $?"
stop stop service stop
does stopped service status
does again service start
hits
killed=$(main)
kill -9 "$killed"
if [ "$1" = systemd ]; then
    # systemd restarts it
    for _ in $(seq 60); do
        [ "$(main)" != "$killed" ] && [ "$(main)" != 0 ] && break
        sleep 1
    done
else
    while [ -d "/proc/$killed" ]; do sleep 1; done
    does killed service status
    does restart service restart
fi
hits
does after service status
older=$(main)
begin=$(up)
does upgrade /usr/bin/dpkg -i /packages/second.deb
echo "TIME upgrade $begin $(up)"
hits
does upgraded service status
[ "$(main)" = "$older" ] || readlink "/proc/$(main)/exe" >/tmp/program.txt
tr '\0' ' ' <"/proc/$(main)/cmdline" >/tmp/command.txt
dpkg-query --show iocrec >/tmp/version.txt
stop remove /usr/bin/dpkg --remove iocrec
files remove
does purge /usr/bin/dpkg --purge iocrec
files purge
kill $ioc
wait $ioc
echo "EXIT ioc $?"
echo FILES
tar -C / -c tmp var/log | gzip | base64
echo END
poweroff -f
