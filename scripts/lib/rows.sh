# shellcheck shell=bash
# scripts/lib/rows.sh: prints a row for each check of a script that sources this. The script sets $results, the directory of
# rows and logs, and $only, the one member to check or nothing. $failed counts failures.
failed=0

# version PART MEMBER: prints the text at the end of the row; a script may redefine it.
version() { :; }

# row PART MEMBER COMMAND...: runs the command, prints a row and keeps it. Status 77, or tests that
# were all skipped: skipped. Fails if the command failed.
row() {
    local part=$1 member=$2 start=$SECONDS verdict=works log=${results:?}/$1-$2.log
    shift 2
    [ -z "$only" ] || [ "$only" = "$member" ] || return 0
    "$@" >"$log" 2>&1
    case $? in
    0) ! tail -n 1 "$log" | grep -Eq '^[0-9]+ skipped' || verdict=skipped ;;
    77) verdict=skipped ;;
    *)
        verdict=FAILED
        failed=$((failed + 1))
        ;;
    esac
    [ "$verdict" = works ] || tail -n 15 "$log" | sed 's/^/    /' >&2
    printf '%-11s %-20s %-8s %5d s  %s\n' "$part" "$member" "$verdict" $((SECONDS - start)) "$(version "$part" "$member")" |
        sed 's/ *$//' | tee "$results/$part-$member"
    [ "$verdict" != FAILED ]
}
