# shellcheck shell=sh disable=SC2154 # serial, loader and words are in iotrial-lab.conf
# A boot loader on the disk whose serial number is $serial: the firmware starts the node from there.
# Nothing is done where it is installed already.
done=/etc/iotrial-loader

start() {
    [ ! -e "$done" ] || return 0
    disk=/dev/disk/by-id/virtio-$serial
    "install_$(echo "$loader" | tr - _)" && echo "$loader" >"$done" && sync
}

lacks() {
    [ -e "$done" ] || echo "$loader is not installed"
}

install_grub() {
    echo 'label: dos
start=2048, type=83, bootable' | sfdisk -q "$disk" && udevadm settle &&
        mkfs.ext4 -q -F -L boot "$disk-part1" && mkdir -p /mnt && mount "$disk-part1" /mnt &&
        cp -a /boot/. /mnt/ && umount /mnt && mount "$disk-part1" /boot &&
        echo 'LABEL=boot /boot ext4 defaults 0 0' >/etc/fstab &&
        printf '%s\n' GRUB_DEFAULT=0 GRUB_TIMEOUT=0 GRUB_RECORDFAIL_TIMEOUT=0 GRUB_TERMINAL=serial \
            GRUB_DISABLE_OS_PROBER=true GRUB_CMDLINE_LINUX_DEFAULT= \
            "GRUB_CMDLINE_LINUX='$words'" >/etc/default/grub &&
        grub-install --target=i386-pc "$(readlink -f "$disk")" && update-grub
}

install_systemd_boot() {
    echo 'label: gpt
type=uefi' | sfdisk -q "$disk" && udevadm settle &&
        mkfs.vfat -n ESP "$disk-part1" && mkdir -p /efi && mount "$disk-part1" /efi &&
        echo 'LABEL=ESP /efi vfat umask=0077 0 0' >/etc/fstab &&
        mkdir -p /etc/kernel && echo "$words" >/etc/kernel/cmdline &&
        bootctl --no-variables --esp-path=/efi install &&
        mkdir -p "/efi/$(cat /etc/machine-id)" && printf 'timeout 0\n' >/efi/loader/loader.conf || return
    for each in /boot/vmlinuz-*; do
        release=${each#/boot/vmlinuz-}
        kernel-install add "$release" "$each" "/boot/initrd.img-$release" || return
    done
    [ -n "$(ls /efi/loader/entries)" ]
}
