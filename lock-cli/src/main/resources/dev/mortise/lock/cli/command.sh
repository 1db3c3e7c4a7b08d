# Waits at the gate, then becomes the command:  sh … mortise GATE plain|coded COMMAND…
# The gate says `go` when the guardian keeps watch. If it says nothing more, the guardian is gone, and nothing is run.

# First for both directions, which does not wait for a writer; a guardian killed before this would have left us there.
{ exec 3<>"$1" 4<"$1" 3>&-; } 2>/dev/null
# No variable of the command's environment has this name.
read -r mortise_gate <&4 && [ "$mortise_gate" = go ] || exit 70
exec 4<&-
unset mortise_gate
mortise_how=$2
shift 2
if [ "$mortise_how" = coded ]; then
  # With bytes that the JVM cannot pass on in this locale. The dot keeps newlines at the end, which $( ) drops.
  for mortise_one in "$@"; do
    case $mortise_one in
      *\\*)
        mortise_one=$(printf '%b.' "$mortise_one")
        mortise_one=${mortise_one%.}
        ;;
    esac
    set -- "$@" "$mortise_one"
    shift
  done
  MORTISE_LOCK=$(printf '%b.' "$MORTISE_LOCK")
  MORTISE_LOCK=${MORTISE_LOCK%.}
  MORTISE_STORE=$(printf '%b.' "$MORTISE_STORE")
  MORTISE_STORE=${MORTISE_STORE%.}
fi
unset mortise_how mortise_one
exec "$@"
