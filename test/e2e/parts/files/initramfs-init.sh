#!/bin/busybox sh
# The kernel's first process: loads what the root disk needs and goes there.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for m in $(cat /lib/order); do insmod "/lib/$m" || echo "insmod $m failed"; done
while [ ! -b /dev/vda ]; do sleep 0.05; done
mount -t ext4 /dev/vda /disk && umount /proc && mount --move /dev /disk/dev && exec switch_root /disk /init
