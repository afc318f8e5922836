# shellcheck shell=sh
# A client of the lab `nas`: it can mount what the server exports, and has it not mounted.
# Source: nfs(5).

start() {
    systemctl start rpcbind.service rpc-statd.service # locks of version 3
}

lacks() {
    place=$(mktemp -d)
    if said=$(mount -t nfs -o vers=4.2,soft,timeo=50 "$SERVER:$EXPORT" "$place" 2>&1); then
        umount "$place"
    else
        echo "$SERVER:$EXPORT cannot be mounted: $said"
    fi
    rmdir "$place"
}
