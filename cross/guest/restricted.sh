#!/bin/sh
# Run by the kernel of a guest as its first process: iocrec in surroundings that lack something, one after the other, and
# then a recording in whose middle the clock jumps from 1970 to now. What comes out is examined by cross/restricted.py,
# which also wrote /cases: a name and the words of a shell on each line, in which "$@" is the command to be tried.
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
while read -r name words; do
    # each has mounts of its own
    unshare -m sh -c "$words" sh iocrec check --json >"/tmp/$name.json" 2>"/tmp/$name.err" </dev/null
    echo "EXIT $name $?"
done </cases
echo "BEFORE $(date +%s)"
iocrec record --dir /tmp/log --duration 7s 2>/tmp/record.err &
recorder=$!
sleep 4
date -s "@$(cat /clock)" >/dev/null
echo "SET $(cat /clock)"
wait $recorder
echo "EXIT record $?"
kill $ioc
wait $ioc
echo "EXIT ioc $?"
echo FILES
tar -C /tmp -c . | gzip | base64
echo END
poweroff -f
