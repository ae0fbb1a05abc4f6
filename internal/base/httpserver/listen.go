package httpserver

import (
	"fmt"
	"net"
)

// Address is an address to listen on, and the flag that sets it.
type Address struct{ Flag, Address string }

// ListenAll listens on all addresses that are not empty, in TCP. If one fails, it closes the others
// and returns an error that names the flag.
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
