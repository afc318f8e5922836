# shellcheck shell=sh
# The boot loader of a host: which one it is, and its menu made anew.
#
# `sh -c TEXT iotrial-loader VERB …` (execute/keep/loader.py).  NAME is `grub` or `kernel-install`,
# WORDS are what was added to the kernel's command line.
#
#   which                           lines: `loader|NAME|`, or why not each that is known
#   has NAME WORDS                  1: no entry of the menu has these words
#   update NAME WORDS               the menu is made anew, and has these words
#   back NAME WORDS FILE FORMER SUM the menu is made anew, now that FILE is what it was: nothing lies
#                                   at FORMER any more, and FILE has not this sum
#
# Asks for POSIX sh with sed, coreutils (8.24: sync FILE), and what the boot loader has itself.

verb=$1
menu=/boot/grub/grub.cfg
parts=/etc/default/grub.d
line=/etc/kernel/cmdline
info=/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f

LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL PATH

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# --- which --------------------------------------------------------------------------------------

# What started this very kernel, where it says so in the firmware's variables.
started_by_systemd_boot() {
    case $(tr -d '\0' <"$info" 2>/dev/null) in *systemd-boot*) ;; *) false ;; esac
}

no_grub() {
    if started_by_systemd_boot; then
        echo 'systemd-boot has booted this host'
    elif [ ! -f "$menu" ]; then
        echo "there is no $menu"
    elif ! command -v update-grub >/dev/null; then
        echo 'there is no update-grub, as on Debian and Ubuntu'
    elif ! grep -q 'default/grub\.d' "$(command -v grub-mkconfig)" 2>/dev/null; then
        echo "grub-mkconfig does not read $parts"
    fi
}

no_kernel_install() {
    find_entries
    if ! started_by_systemd_boot && { [ -f "$menu" ] || [ -f /boot/grub2/grub.cfg ]; }; then
        echo 'GRUB boots this host'
    elif ! command -v kernel-install >/dev/null; then
        echo 'kernel-install is not installed'
    elif [ -z "$(entries_of "$(uname -r)")" ]; then
        echo 'the running kernel has no entry below /efi, /boot or /boot/efi'
    elif [ ! -f "$line" ]; then
        echo "there is no $line"
    elif [ -e /etc/kernel/tries ]; then
        echo '/etc/kernel/tries has boots counted: each entry would be there twice'
    fi
}

which_one() {
    grub=$(no_grub)
    other=$(no_kernel_install)
    if [ -z "$grub" ]; then
        echo 'loader|grub|'
    elif [ -z "$other" ]; then
        echo 'loader|kernel-install|'
    else
        printf 'not|grub|%s\nnot|kernel-install|%s\n' "$grub" "$other"
    fi
}

# --- the menu -----------------------------------------------------------------------------------

# Where kernel-install looks first and finds entries.
find_entries() {
    root=
    for each in /efi /boot /boot/efi; do
        [ -n "$root" ] || [ ! -d "$each/loader/entries" ] || root=$each
    done
    [ -n "$root" ] || for each in /efi /boot/efi /boot; do
        [ -n "$root" ] || [ ! -d "$each/EFI/Linux" ] || root=$each
    done
}

# entries_of RELEASE: its entries, also those that count tries, and images that hold all.
entries_of() {
    for each in "$root/loader/entries/"*"-$1.conf" "$root/loader/entries/"*"-$1+"*.conf \
        "$root/EFI/Linux/"*"-$1.efi" "$root/EFI/Linux/"*"-$1+"*.efi; do
        [ -n "$root" ] && [ -f "$each" ] && printf '%s\n' "$each"
    done
}

# The kernel's command lines in the menu, without what is for init.
lines() {
    case $1 in
        grub) sed -n 's/^[[:blank:]]*linux\(efi\)\{0,1\}[[:blank:]]/ /p' "$menu" ;;
        kernel-install)
            find_entries
            for each in "$root/loader/entries/"*.conf; do
                sed -n 's/^options[[:blank:]]/ /p' "$each"
            done
            for each in "$root/EFI/Linux/"*.efi; do
                [ ! -f "$each" ] || tr '\0' '\n' <"$each" | grep -aF -- "$words"
            done
            ;;
    esac 2>/dev/null | sed -e 's/.*/ & /' -e 's/[[:blank:]]--[[:blank:]].*/ /'
}

has() {
    lines "$1" | grep -aF -- " $words " >/dev/null
}

make() {
    case $1 in
        grub) update-grub && sync -- "$menu" ;;
        kernel-install) make_entries ;;
    esac
}

# Of the kernels that have some: others may have been left out for want of room.
make_entries() {
    find_entries
    for each in /boot/vmlinuz-* /usr/lib/modules/*/vmlinuz; do
        [ -f "$each" ] || continue
        image=$each
        case $image in
            /boot/*) release=${image#/boot/vmlinuz-} ;;
            *) release=${image#/usr/lib/modules/} release=${release%/vmlinuz} ;;
        esac
        case " $done_" in *" $release "*) continue ;; esac
        [ -n "$(entries_of "$release")" ] || continue
        kernel-install add "$release" "$image" || return
        done_="$done_$release "
    done
    [ -n "$done_" ] || {
        echo 'no installed kernel has an entry in the menu' >&2
        return 1
    }
    sync -f -- "$root"
}

# What a grub-mkconfig leaves that fails or is killed; the next one would remove it as well.
tidy() {
    [ "$1" != grub ] || rm -f -- "$menu.new"
}

# made NAME: SAID is why not.
made() {
    done_=
    case $1 in grub) program=update-grub ;; *) program=kernel-install ;; esac
    said=$(make "$1" 2>&1) && return
    tidy "$1"
    said="$program: $(printf '%s' "$said" | tail -n 1)"
    false
}

update() {
    made "$1" || fail "$said"
    has "$1" || fail "$program has ended well, but no entry of the menu has: $words"
}

back() {
    # While a boot is at its very beginning, another file system may hide what is there.
    if [ -d /run/systemd/system ] && ! systemctl -q is-active local-fs.target basic.target; then
        fail 'the local file systems are not mounted (systemctl status local-fs.target)'
    fi
    if [ -e "$4" ] || [ -L "$4" ]; then fail "$3 is not what it was"; fi
    if [ -f "$3" ]; then
        sum=$(sha256sum <"$3") || exit
        [ "${sum%% *}" != "$5" ] || fail "$3 is still there"
    fi
    find_entries
    [ -f "$menu" ] || [ -n "$root" ] || fail 'the menu of the boot loader is not there'
    # A menu without our words is as before: nothing made it, or somebody has made it anew since.
    ! has "$1" || made "$1" || fail "$said"
    tidy "$1"
}

words=${3-}
case $verb in
    which) which_one ;;
    has) has "$2" ;;
    update) update "$2" ;;
    back) shift && back "$@" ;;
    *) fail "unknown verb $verb" ;;
esac
