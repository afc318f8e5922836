# shellcheck shell=sh
# Picks: which part of what was read is the value of a setting.  The twin of model/step.py, for sh.
#
# A text, not a program: the agent of an SSH host and the guard begin with it.  It is POSIX sh
# (POSIX.1-2017, XCU 2) without any command, so it forks nothing.  LC_ALL=C is in force.
#
# `pick KIND KEY` takes the variable RAW and sets VALUE; its status is 1 where nothing is found.
# For `whole`, RAW must be exact: RAW=$(cat FILE; echo .); RAW=${RAW%.}
# Blanks are blank, tab and newline; the kernel writes no other.

pick_nl='
'
pick_tab='	'
pick_blanks=" $pick_tab$pick_nl"

pick() {
    pick_globs=$-
    pick_ifs=$IFS
    set -f
    IFS=$pick_blanks
    VALUE=
    "pick_$1" "$2"
    pick_status=$?
    IFS=$pick_ifs
    case $pick_globs in *f*) ;; *) set +f ;; esac
    return "$pick_status"
}

# shellcheck disable=SC2086 # RAW is split into its words on purpose, here and below
pick_text() {
    set -- $RAW
    VALUE="$*"
}

pick_chosen() {
    case $RAW in
        *\[*\]*)
            VALUE=${RAW#*\[}
            VALUE=${VALUE%%\]*}
            ;;
        *) pick_text ;;
    esac
}

# The variable pick_line without the blanks around it.
# shellcheck disable=SC2295 # a set of characters, not a pattern
pick_strip() {
    pick_line=${pick_line#"${pick_line%%[!$pick_blanks]*}"}
    pick_line=${pick_line%"${pick_line##*[!$pick_blanks]}"}
}

# shellcheck disable=SC2086
pick_field() {
    pick_key=$1
    IFS=$pick_nl
    for pick_line in $RAW; do
        pick_strip
        case $pick_line in
            "$pick_key"*)
                IFS=$pick_blanks
                set -- ${pick_line#"$pick_key"}
                VALUE=${1-}
                ;;
        esac
    done
    [ -n "$VALUE" ]
}

# shellcheck disable=SC2086
pick_item() {
    pick_key=${1%% *}
    pick_name=
    case $1 in *' '*) pick_name=${1#* } ;; esac
    pick_found=1
    IFS=$pick_nl
    for pick_line in $RAW; do
        IFS=$pick_blanks
        set -- $pick_line
        [ "${1-}" = "$pick_key" ] || continue
        shift || continue
        pick_found=1
        VALUE=
        for pick_word; do
            [ "${pick_word%%=*}" = "$pick_name" ] || continue
            case $pick_word in *=*) VALUE=${pick_word#*=} ;; esac
            pick_found=0
            break
        done
    done
    return "$pick_found"
}

pick_option() {
    pick_text
    pick_rest=$VALUE,
    VALUE='unset'
    while [ -n "$pick_rest" ]; do
        pick_word=${pick_rest%%,*}
        pick_rest=${pick_rest#*,}
        [ "${pick_word%%=*}" = "$1" ] || continue
        VALUE=on
        case $pick_word in *=*) VALUE=${pick_word#*=} ;; esac
        return
    done
}

pick_listed() {
    pick_text
    pick_there=,$VALUE,
    VALUE=${1%%,*}
    pick_rest=$1,
    while [ -n "$pick_rest" ]; do
        pick_word=${pick_rest%%,*}
        pick_rest=${pick_rest#*,}
        case $pick_there in *",$pick_word,"*) VALUE=$pick_word ;; esac
    done
}

# shellcheck disable=SC2086
pick_mask() {
    pick_line=$RAW
    pick_strip
    IFS=,
    set -- $pick_line
    IFS=
    pick_rest="$*"
    pick_rest=${pick_rest#"${pick_rest%%[!0]*}"}
    while [ -n "$pick_rest" ]; do
        case $pick_rest in
            A*) VALUE=${VALUE}a ;;
            B*) VALUE=${VALUE}b ;;
            C*) VALUE=${VALUE}c ;;
            D*) VALUE=${VALUE}d ;;
            E*) VALUE=${VALUE}e ;;
            F*) VALUE=${VALUE}f ;;
            *) VALUE=$VALUE${pick_rest%"${pick_rest#?}"} ;;
        esac
        pick_rest=${pick_rest#?}
    done
    VALUE=${VALUE:-0}
}

pick_yes() {
    pick_text
    case $VALUE in
        Y) VALUE=1 ;;
        N) VALUE=0 ;;
    esac
}

pick_whole() {
    VALUE=$RAW
}
