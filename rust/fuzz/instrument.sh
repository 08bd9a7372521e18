#!/usr/bin/env bash
# `instrument.sh rustc ARGUMENTS...`, as Cargo calls it: compiles what is ours with the flags of run.sh.
case " $* " in
*" --crate-name rehydrate_core "* | *" targets/"*) exec "$@" $INSTRUMENT ;;
*) exec "$@" ;;
esac
