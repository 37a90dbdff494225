#!/bin/sh
# A function: the message on standard input, exit 0 is "done, delete it", anything else "again later".
# A message may come twice, so the work is keyed by something that stays: here the message's id.
message=$(cat)
case $message in
    *fail*) echo "cannot charge: $message" >&2; exit 1 ;;
esac
mkdir -p payments && printf '%s\n' "$message" > "payments/$JADPO_MESSAGE_ID"
