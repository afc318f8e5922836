# shellcheck shell=sh disable=SC2015 # A && B || fail: either way it fails
# Boots the host once with another kernel or command line, and brings it back to its own.
#
# `sh -c TEXT iotrial-boot VERB …` (execute/boot.py).  What is owed lies in $dir, which a boot does
# not forget, and the unit $unit pays it: it is started when a boot is armed, and by each boot.
#
#   where the level's boot runs    while the controller's lock is held, nothing; once nobody has held
#                                  it for so many seconds, it boots the host into its own
#   where its own runs, and it was while the lock is held, nothing; then it disarms
#   armed in this very boot
#   where its own runs otherwise   it disarms at once, and removes what it has here
#
# The level's boot is known by a word of its command line, iotrial.boot=TOKEN, which the kernel does
# not heed.  Each method is one-shot by nature: what is loaded by kexec(8) a power cut forgets; GRUB
# and systemd-boot forget their next entry as they take it.
#
# Asks for POSIX sh, coreutils, flock and findmnt (util-linux) and systemd.

verb=$1
dir=/var/lib/iotrial/boot
here=/run/iotrial/boot-armed # in this very boot
unit=iotrial-boot.service
units=/etc/systemd/system
cold=/no-kexec-reboot # else Debian's kexec-load loads what runs as the host goes down

umask 077
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL PATH

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# --- what there is ------------------------------------------------------------------------------

image_of() { # RELEASE: image, initrd
    image=
    for each in "/boot/vmlinuz-$1" "/usr/lib/modules/$1/vmlinuz" "/lib/modules/$1/vmlinuz"; do
        [ -z "$image" ] && [ -f "$each" ] && image=$each
    done
    initrd=
    for each in "/boot/initrd.img-$1" "/boot/initramfs-$1.img" "/boot/initrd-$1"; do
        [ -z "$initrd" ] && [ -f "$each" ] && initrd=$each
    done
    [ -n "$image" ]
}

no_systemd() {
    [ "$(id -u)" = 0 ] || echo 'booting needs root'
    [ -d /run/systemd/system ] || echo 'this host does not run systemd, whose unit brings it back'
    command -v flock >/dev/null || echo 'flock is not installed (util-linux)'
}

no_kexec() {
    if ! command -v kexec >/dev/null; then
        echo 'kexec is not installed (kexec-tools)'
    elif [ ! -e /sys/kernel/kexec_loaded ]; then
        echo 'the kernel has no kexec (CONFIG_KEXEC)'
    elif [ "$(cat /proc/sys/kernel/kexec_load_disabled)" = 1 ]; then
        echo 'kernel.kexec_load_disabled is 1'
    elif [ "$(cat /sys/kernel/kexec_loaded)" = 1 ] && [ ! -e "$here" ]; then
        echo 'another kernel is loaded already (kexec -u unloads it)'
    fi
}

grub_names() {
    grub=/boot/grub
    grub_=grub
    [ ! -f /boot/grub2/grub.cfg ] || grub=/boot/grub2
    ! command -v grub2-reboot >/dev/null || grub_=grub2
}

no_grub() {
    grub_names
    if [ ! -f "$grub/grub.cfg" ] || ! command -v "$grub_-reboot" >/dev/null; then
        echo 'GRUB is not installed'
    elif ! grep -q next_entry "$grub/grub.cfg"; then
        echo "$grub/grub.cfg does not heed next_entry"
    elif ! grep -q custom.cfg "$grub/grub.cfg"; then
        echo "$grub/grub.cfg does not read custom.cfg (41_custom)"
    else
        # What GRUB cannot write it cannot forget: such an entry would be booted again and again
        # (grub-reboot(8); GRUB's manual, "The GRUB environment block").
        kind=$(stat -f -c %T "$grub")
        from=$(findmnt -n -o SOURCE -T "$grub")
        case $kind in
            ext2/ext3 | xfs | msdos) ;;
            *) echo "GRUB cannot write into $grub on $kind" ;;
        esac
        case $(readlink -f "$from") in
            /dev/dm-* | /dev/md*) echo "GRUB cannot write into $grub on $from" ;;
        esac
    fi
}

no_bootctl() {
    if ! command -v bootctl >/dev/null || [ ! -d /sys/firmware/efi/efivars ]; then
        echo 'systemd-boot is not what booted this host'
    elif [ -z "$(find /sys/firmware/efi/efivars -name 'LoaderInfo-4a67b082-*')" ]; then
        echo 'systemd-boot is not what booted this host'
    elif ! bootctl set-oneshot --help >/dev/null 2>&1; then
        echo 'bootctl has no set-oneshot (systemd 239)'
    fi
}

# Lines of fields: what runs, which kernels are installed, why not each method, and what is owed.
means() {
    printf 'running|%s|%s\n' "$(uname -r)" "$(cat /proc/cmdline)"
    for each in /boot/vmlinuz-* /lib/modules/*/vmlinuz; do
        [ -f "$each" ] || continue
        case $each in
            /boot/*) release=${each#/boot/vmlinuz-} ;;
            *) release=${each#/lib/modules/} release=${release%/vmlinuz} ;;
        esac
        [ -d "/lib/modules/$release" ] && printf 'kernel|%s|\n' "$release"
    done
    why=$(no_systemd | head -n 1)
    for each in kexec grub bootctl; do
        printf 'method|%s|%s\n' "$each" "${why:-$("no_$each" | head -n 1)}"
    done
    # Of an arming that the power cut, too.
    if [ -e "$dir" ] || [ -e "$units/$unit" ]; then
        printf 'owed|%s|\n' "$(cat "$dir/token" 2>/dev/null || echo begun)"
    fi
    ! marked || printf 'level|%s|\n' "$(uname -r)"
}

# parameters MODULE RELEASE: what parameters the module has; nothing where that is not known.
parameters() {
    modinfo -k "$2" -F parm "$1" 2>/dev/null | sed -n 's/:.*//p'
}

# --- what is owed -------------------------------------------------------------------------------

# Of whichever level: while the next one is armed, the one before it runs.
marked() {
    case " $(cat /proc/cmdline)" in *" iotrial.boot="*) ;; *) false ;; esac
}

# put FILE: what comes on stdin, durably, whole or not at all.
put() {
    cat >"$1.new" && sync -- "$1.new" && mv -f -- "$1.new" "$1" && sync -- "${1%/*}"
}

# arm TOKEN METHOD RELEASE COMMAND-LINE PATIENCE LOCK TEXT: the boot is ready to go, and owed.
arm() {
    token=$2 method=$3 release=$4 words=$5
    image_of "$release" || fail "no kernel $release is installed on this host"
    mkdir -p -- "$dir" /run/iotrial && chmod 700 "$dir" || fail "$dir cannot be made"
    disarm
    printf '%s\n' "$method" | put "$dir/method" &&
        printf '%s\n%s\n' "$6" "$7" | put "$dir/patience" &&
        printf '%s\n' "$8" | put "$dir/boot.sh" &&
        printf '%s\n' "$token" | put "$dir/token" || fail "$dir cannot be written"
    : >"$here"
    printf '%s\n' \
        '# iotrial: this host was booted for a study, and is brought back by this; then it is removed.' \
        '[Unit]' 'Description=Bring this host back to its own kernel and command line (iotrial)' \
        'DefaultDependencies=no' 'After=local-fs.target' 'Conflicts=shutdown.target' 'Before=shutdown.target' \
        '[Service]' "ExecStart=/bin/sh $dir/boot.sh watch" 'KillMode=process' \
        '[Install]' 'WantedBy=sysinit.target' | put "$units/$unit" || fail "$units/$unit cannot be written"
    chmod 644 "$units/$unit"
    mkdir -p "$units/sysinit.target.wants" && chmod 755 "$units/sysinit.target.wants" && ln -sf "../$unit" "$units/sysinit.target.wants/$unit" &&
        sync -- "$units/sysinit.target.wants" || fail "$unit cannot be enabled"
    systemctl daemon-reload && systemctl restart "$unit" || fail "$unit does not start"
    case $method in kexec | grub | bootctl) ;; *) fail "unknown method $method" ;; esac
    why=$("arm_$method" 2>&1) || {
        disarm
        marked || clear
        fail "$(printf '%s' "$why" | tail -n 1)"
    }
}

arm_kexec() {
    set -- -l "$image" "--command-line=$words"
    [ -z "$initrd" ] || set -- "$@" "--initrd=$initrd"
    kexec -a "$@" 2>/dev/null || kexec "$@"
}

# An entry in custom.cfg, behind what is there.
arm_grub() {
    grub_names
    uuid=$("$grub_-probe" --target=fs_uuid "$image") && path=$("$grub_-mkrelpath" "$image") || return
    quoted=$(grub_words) || return
    [ -e "$grub/custom.cfg" ] || : >"$dir/no-custom.cfg"
    {
        [ ! -e "$grub/custom.cfg" ] || cat "$grub/custom.cfg"
        printf '%s\n' "$entry_begins"
        printf "menuentry 'iotrial' --id iotrial-%s {\n" "$token"
        printf 'search --no-floppy --fs-uuid --set=root %s\n' "$uuid"
        printf 'linux %s%s\n' "$path" "$quoted"
        [ -z "$initrd" ] || printf 'initrd %s\n' "${path%/*}/${initrd##*/}"
        printf '}\n%s\n' "$entry_ends"
    } >"$grub/custom.cfg.new" && chmod 600 "$grub/custom.cfg.new" && sync -- "$grub/custom.cfg.new" &&
        mv -f "$grub/custom.cfg.new" "$grub/custom.cfg" && "$grub_-reboot" "iotrial-$token" && sync -- "$grub"
}
entry_begins='### iotrial: begin'
entry_ends='### iotrial: end'

# Each word in single quotes, in which nothing means anything to GRUB; it would put a backslash before
# quotes of the kernel's own.
grub_words() {
    case $words in *[\'\"\\]*) fail "GRUB does not hand over quotes in a command line: $words" ;; esac
    set -f
    for each in $words; do printf " '%s'" "$each"; done
    echo
}

# An entry beside the others, made of the one for that kernel.
arm_bootctl() {
    entries=$(bootctl -x 2>/dev/null || bootctl -p)/loader/entries
    base=
    for each in "$entries"/*.conf; do
        case $(sed -n 's/^version[[:blank:]]*//p' "$each") in "$release") base=$each ;; esac
        case $(sed -n 's/^linux[[:blank:]]*//p' "$each") in
            *"/$release/"* | *[-/]"$release") base=$each ;;
        esac
    done
    [ -n "$base" ] || fail "systemd-boot has no entry for $release in $entries"
    {
        printf 'title iotrial\n'
        grep -E '^(version|linux|initrd|devicetree|architecture)[[:blank:]]' "$base"
        printf 'options %s\n' "$words"
    } >"$entries/iotrial.conf" && sync -- "$entries/iotrial.conf" && bootctl set-oneshot iotrial.conf
}

# What was armed, and is not yet booted, is so no longer.
disarm() {
    case $(cat "$dir/method" 2>/dev/null) in
        kexec)
            [ ! -e "$here" ] || [ "$(cat /sys/kernel/kexec_loaded 2>/dev/null)" != 1 ] || kexec -u
            ;;
        grub)
            grub_names
            ! "$grub_-editenv" "$grub/grubenv" list | grep -q '^next_entry=iotrial-' ||
                "$grub_-editenv" "$grub/grubenv" unset next_entry
            # Only what is ours goes: somebody may have written there meanwhile.
            if [ -e "$grub/custom.cfg" ] && cp -p "$grub/custom.cfg" "$grub/custom.cfg.new"; then
                sed "/^$entry_begins\$/,/^$entry_ends\$/d" "$grub/custom.cfg" >"$grub/custom.cfg.new" &&
                    mv -f "$grub/custom.cfg.new" "$grub/custom.cfg"
            fi
            [ ! -e "$dir/no-custom.cfg" ] || [ -s "$grub/custom.cfg" ] || rm -f "$grub/custom.cfg" "$dir/no-custom.cfg"
            rm -f "$grub/custom.cfg.new"
            sync -- "$grub"
            ;;
        bootctl)
            entries=$(bootctl -x 2>/dev/null || bootctl -p)/loader/entries
            [ ! -e "$entries/iotrial.conf" ] || {
                bootctl set-oneshot ''
                rm -f "$entries/iotrial.conf"
                sync -- "$entries"
            }
            ;;
    esac
}

# Where its own boot runs: nothing of us is left.
clear() {
    ! marked || fail 'the host still runs a boot of a study'
    disarm
    rm -f "$units/sysinit.target.wants/$unit" "$units/$unit" "$here"
    [ ! -e "$dir/token" ] || rm -f "$dir/token"
    rm -rf "$dir"
    sync -- "$units" /var/lib/iotrial
    systemctl daemon-reload
}

# --- going --------------------------------------------------------------------------------------

go() {
    case $(cat "$dir/method") in
        kexec) systemctl kexec --no-block ;;
        *) cold_boot ;;
    esac
}

cold_boot() {
    [ "$(cat /sys/kernel/kexec_loaded 2>/dev/null)" != 1 ] || kexec -u
    [ ! -e /etc/init.d/kexec-load ] || : >"$cold"
    SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl reboot --no-block
}

back() {
    disarm
    cold_boot
}

watch() {
    rm -f "$cold"
    if ! marked && [ ! -e "$here" ]; then
        clear
        exit
    fi
    patience=$(sed -n 1p "$dir/patience")
    lock=$(sed -n 2p "$dir/patience")
    mkdir -p "${lock%/*}"
    # While somebody holds it, this waits without a single program: a load may be measured.
    alone=0
    while [ "$alone" -lt "$patience" ]; do
        if flock -n -s "$lock" true; then
            sleep 5
            alone=$((alone + 5))
        else
            flock -s "$lock" true || sleep 1
            alone=0
        fi
    done
    if marked; then back; else clear; fi
}

case $verb in
    means | clear | disarm | go | back | watch) "$verb" ;;
    arm) arm "$@" ;;
    parameters) parameters "$2" "$3" ;;
    *) fail "unknown verb $verb" ;;
esac
