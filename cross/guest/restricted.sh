#!/bin/sh
# A guest's first process. Runs iocrec under several restrictions, and then records while the clock jumps from 1970 to now.
# cross/restricted.py examines the output. It also wrote /cases, with a name and a shell script on each line, in which "$@"
# is the command to run.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t securityfs securityfs /sys/kernel/security
mount -t tmpfs tmpfs /tmp
hostname guest
ifconfig lo 127.0.0.1 up
echo 3 >/proc/sys/kernel/printk
echo "BEGIN $(uname -r) up $(cut -d ' ' -f 1 /proc/uptime)"
IOC=guest imitation 600 &
ioc=$!
sleep 1
while read -r name script; do
    # each case has its own mounts
    unshare -m sh -c "$script" sh iocrec check --json >"/tmp/$name.json" 2>"/tmp/$name.err" </dev/null
    echo "EXIT $name $?"
done </cases
echo "BEFORE $(date +%s)"
iocrec record --dir /tmp/log 2>/tmp/record.err &
recorder=$!
# placing probes may take many seconds on an emulated, busy machine
for _ in $(seq 60); do
    iocrec status --dir /tmp/log --json 2>/dev/null | grep -q '"iocs":\[{' && break
    sleep 1
done
sleep 2
date -s "@$(cat /clock)" >/dev/null
echo "SET $(cat /clock)"
sleep 3
kill $recorder
wait $recorder
echo "EXIT record $?"
kill $ioc
wait $ioc
echo "EXIT ioc $?"
echo FILES
tar -C /tmp -c . | gzip | base64
echo END
poweroff -f
