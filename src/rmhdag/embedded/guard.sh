# Becomes the server (exec), after leaving a watcher behind that stops it when the starter is gone, however it went.
# $1: data folder, $2: folder to remove in the end or "", the rest: the server's command. Input ends with the starter.
data=$1 remove=$2
shift 2
server=$$
exec 3<&0 </dev/null

watch() {
    # A line means that the starter has stopped the server itself; the end of file without one, that it died.
    read -r _ <&3 && exit 0
    exec 3<&-
    # The number may belong to somebody else by now, so the data folder must name it; a server that is only just
    # starting has not written it yet.
    while kill -0 "$server"; do
        read -r pid <"$data/postmaster.pid" && [ "$pid" = "$server" ] && kill -INT "$server"
        sleep 0.1
    done
    [ -z "$remove" ] || rm -rf -- "$remove"
}

# Through a subshell that ends at once, so that the watcher is no child of the server.
(watch 2>/dev/null >/dev/null &)
exec "$@" 3<&-
