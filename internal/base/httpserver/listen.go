package httpserver

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
)

// Address is an address to listen on, and the flag that sets it.
type Address struct{ Flag, Address string }

// ListenAll listens on all addresses that are not empty, in TCP, and returns the listeners in this
// order. If one fails, it closes the others and returns an error that names the flag.
func ListenAll(addresses ...Address) ([]net.Listener, error) {
	var list []net.Listener
	for _, a := range addresses {
		if a.Address == "" {
			continue
		}
		l, err := net.Listen("tcp", a.Address)
		if err != nil {
			for _, open := range list {
				_ = open.Close() // nothing was served on it
			}
			return nil, fmt.Errorf("%s: %w", a.Flag, err)
		}
		list = append(list, l)
	}
	return list, nil
}

// ListenOptional listens on the TCP port of an optional service. It returns nil if port is 0. It
// also returns nil, with a warning that names the service, if the address is unavailable.
func ListenOptional(service, host string, port uint16, log *slog.Logger) net.Listener {
	if port == 0 {
		return nil
	}
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))
	l, err := net.Listen("tcp", address)
	if err != nil {
		log.Warn("optional port unavailable, "+service+" is not served", "address", address, "err", err)
		return nil
	}
	return l
}
