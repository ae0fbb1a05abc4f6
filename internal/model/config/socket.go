package config

import "strings"

// SocketPrefix is the beginning of the address of a Unix domain socket, before its path.
const SocketPrefix = "unix://"

// IsSocket reports whether an address has the form of a Unix domain socket ("unix://…"), which may
// be invalid.
func IsSocket(address string) bool { return strings.HasPrefix(address, SocketPrefix) }
