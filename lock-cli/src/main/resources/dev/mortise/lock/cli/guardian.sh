# The guardian of one command: ends it before the lease of its lock can end, whatever becomes of mortise.
#
# mortise runs it in a session of its own, where no terminal reaches it:  setsid sh … guardian GRACE
# It says on stdout:   ready           the gate is there, at /proc/<pid of the guardian>/fd/3
#                      left PID …      the answer to `sweep`: the command's processes that are alive
#                      ended           the end was near, and the command is ended (or not started any more)
# It hears on stdin:   end N           the lease ends at N; each confirmed renewal sends a larger one
#                      group PID BORN all|alone   the command, waiting at the gate: guard it and let it in. `all` is its
#                                      whole session, `alone` only the process itself (--foreground)
#                      signal NAME     pass this signal to the command's group
#                      sweep NAME      send this signal (0: none) to all that is left of the command
#                      done            all is over
#                      end of file     mortise is gone: end the command at once
# Times are hundredths of a second on the machine's uptime clock, which all processes read alike; seconds left would
# grow old in the pipe. BORN tells the command from a stranger that got its number later.

LC_ALL=C
PATH=$PATH:/usr/bin:/bin
export LC_ALL PATH
# What is meant for mortise or the command must not end their guardian; PIPE comes when mortise is gone.
trap '' INT TERM HUP QUIT TSTP PIPE

now() {
  read -r now rest </proc/uptime
  # The 1 keeps "08" from being read as an octal number.
  now=$((${now%.*} * 100 + 1${now#*.} - 100))
}

pause() {
  [ "$1" -gt 0 ] || return 0
  set -- $(($1 / 100)).$(($1 % 100 / 10))$(($1 % 10))
  # bash can wait without starting a process, and must: see terminate.
  if [ -n "${BASH_VERSION-}" ]; then read -r -t "$1" never <&5; else sleep "$1"; fi
}

# look PID: when it was started, empty if there is no such process, and whether it is alive. A zombie is not, unless it
# has other threads: then only its main thread has ended. The name, second in the line, may hold spaces and parentheses.
look() {
  stat=
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null
  set -- ${stat##*) }
  born=${20-} alive=yes
  case ${1-X} in [ZXx]) [ "${18-0}" -gt 1 ] || alive=no ;; esac
}

# strike SIGNAL: to the command's group in one step and without starting a process, because this must work when no
# process can be started. While one process of the group or session is left, nobody else gets its number.
strike() {
  look "$leader"
  [ "${born:-$since}" = "$since" ] || return 0
  if [ "$reach" = all ] && kill -s "$1" -- "-$leader"; then
    return
  fi
  # Alone; or so young that it is still on its way to a session of its own.
  [ -z "$born" ] || kill -s "$1" "$leader"
}

# members [SED OPTION …]: the command's processes that are alive; `?` if that cannot be told. The same rule for zombies
# (the 14th number after the session counts the threads). cat, because sed stops at a process that ends while it reads.
members() {
  left=
  look "$leader"
  [ "${born:-$since}" = "$since" ] || return 0
  if [ "$reach" = alone ]; then
    [ "$alive" = no ] || left=$leader
    return 0
  fi
  left=$({
    cat /proc/[0-9]*/stat
    [ $? -gt 1 ] || echo whole
  } | sed -n "$@" \
    -e "s/^\($leader\) (.*) [^ZXx] [-0-9 ]*$/\1/p" \
    -e "s/^\([0-9]*\) (.*) [^ZXx] [0-9]* [0-9]* $leader [-0-9 ]*$/\1/p" \
    -e "s/^\([0-9]*\) (.*) Z [0-9]* [0-9]* $leader \([-0-9]* \)\{13\}[2-9] [-0-9 ]*$/\1/p" \
    -e "s/^\([0-9]*\) (.*) Z [0-9]* [0-9]* $leader \([-0-9]* \)\{13\}[1-9][0-9][0-9]* [-0-9 ]*$/\1/p" \
    -e 's/^whole$/&/p')
  case $left in
    *whole) left=${left%whole} ;;
    *) left='?' ;;
  esac
}

# spread SIGNAL: to those that a shell with job control has put into groups of their own.
spread() {
  [ "$reach" = all ] || return 0
  members -e "/^[0-9]* (.*) [^ ] [0-9]* $leader $leader [-0-9 ]*$/d"
  for one in $left; do kill -s "$1" "$one"; done
}

# CONT, because a stopped process hears TERM only when it goes on.
terminate() {
  strike TERM
  strike CONT
  # Where no process can be started, dash gives up (and kills, see EXIT); bash tries for 15 s, and KILL would be late.
  # Aside, because to look at all processes of a busy machine can take longer than the grace. Not with the gate open.
  if [ -z "${BASH_VERSION-}" ]; then
    { spread TERM; spread CONT; } 3>&- &
  fi
}

# Until none is left; but a process of another user (sudo) cannot be killed from here, ever.
kill_all() {
  while strike KILL; spread KILL; members; [ -n "$left" ]; do
    now
    [ "$now" -lt $((end + 500)) ] || break
    pause 5
  done
}

# Watches the clock: in a process of its own, since a shell cannot wait for a line and for a time at once, and in a
# session of its own, to be stopped as a whole. If its parent is killed, it goes on with the last end it knows.
watch() {
  leader=$1 since=$2 reach=$3 grace=$4 end=$5
  # Also when the shell gives up because it can start no process.
  trap 'echo ended; strike KILL' EXIT
  now
  # Here and not in the guardian: nothing runs before its watch does.
  [ "$now" -ge $((end - grace)) ] || echo go >&3
  # If the guardian is killed, those at the gate must see an end of file.
  exec 3>&-
  while
    # All ends that are in the queue; our own mark is behind them, so that this does not wait for more.
    echo mark >&4
    while read -r line <&4 && [ "$line" != mark ]; do end=$line; done
    now
    [ "$now" -lt $((end - grace)) ]
  do
    pause $((end - grace - now))
  done
  echo ended
  terminate
  # Not cut short if all are gone: to look costs time, and a busy machine has none.
  now
  pause $((end - grace / 3 - now))
  kill_all
  trap - EXIT
}

# Three pipes on 3, 4 and 5, open for both directions, so that nobody who opens or writes them waits. Here-documents
# are pipes without a name, and without a file that a kill could leave behind; bash before 5.1 keeps them in files.
pipes() {
  exec 3<<A 4<<B 5<<C
x
A
x
B
x
C
  if [ -p /proc/$$/fd/3 ] && [ -p /proc/$$/fd/4 ] && [ -p /proc/$$/fd/5 ]; then
    exec 3<>/proc/$$/fd/3 4<>/proc/$$/fd/4 5<>/proc/$$/fd/5
    read -r x <&3 && read -r x <&4 && read -r x <&5
    return
  fi
  dir=$(mktemp -d "${TMPDIR:-/tmp}/mortise.XXXXXX")
  [ -n "$dir" ] || return 1
  mkfifo "$dir/gate" "$dir/ends" "$dir/never" && exec 3<>"$dir/gate" 4<>"$dir/ends" 5<>"$dir/never"
  rm -r "$dir"
  [ -p /proc/$$/fd/5 ]
}

guardian() {
  grace=$1 end=0 leader= watch= over=
  pipes || exit 1
  exec 2>/dev/null
  echo ready

  while [ -z "$over" ] && read -r word one two three; do
    case $word in
      end)
        end=$one
        [ -z "$leader" ] || echo "$end" >&4
        if [ -n "$watch" ]; then
          # Without it nobody looks at the clock. When this process ends, mortise ends the command.
          look "$watch"
          [ "$born" = "$hatched" ] && [ "$alive" = yes ] || exit 1
        fi
        ;;
      group)
        leader=$one since=$two reach=$three
        trap 'strike KILL' EXIT
        setsid sh -c 'eval "$MORTISE_GUARDIAN"' mortise-guardian watch "$leader" "$since" "$reach" "$grace" "$end" \
          </dev/null &
        watch=$!
        look "$watch"
        hatched=$born
        ;;
      signal) strike "$one" ;;
      sweep)
        strike "$one"
        spread "$one"
        members
        echo left $left
        ;;
      done) over=yes ;;
    esac
  done

  if [ -z "$over" ] && [ -n "$leader" ]; then
    now
    until=$((now + grace))
    [ "$until" -lt $((end - grace / 3)) ] || until=$((end - grace / 3))
    terminate
    while members; now; [ -n "$left" ] && [ "$now" -lt "$until" ]; do pause 5; done
    kill_all
  fi
  trap - EXIT
  if [ -n "$watch" ]; then
    look "$watch"
    if [ "$born" = "$hatched" ]; then
      # First the shell, so that it starts no other sleep, then its sleep; both ignore everything else.
      kill -s KILL "$watch"
      kill -s KILL -- "-$watch"
    fi
  fi
}

"$@"
