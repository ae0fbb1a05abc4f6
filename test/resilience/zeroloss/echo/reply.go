package echo

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Reply is a server's description of itself.
type Reply struct {
	ID      string // of the request
	Version string // of the server
	Addr    string // address at which the request arrived
	TLS     bool   // whether it was encrypted
	// HTTP is set if it came over HTTP, including gRPC; Generation is the header x-generation then,
	// which a rule may have added on the way.
	HTTP       bool
	Generation string
}

// encodeText encodes a reply.
func (r Reply) encodeText() string { return fmt.Sprintf("%s %s %s %t", r.ID, r.Version, r.Addr, r.TLS) }

// parseReply reads the reply to a request.
func parseReply(text, id string) (Reply, error) {
	f := strings.Fields(text)
	if len(f) != 4 {
		return Reply{}, fmt.Errorf("not a reply: %.120q", text)
	}
	if f[0] != id {
		return Reply{}, fmt.Errorf("the reply to %s instead of %s", f[0], id)
	}
	encrypted, err := strconv.ParseBool(f[3])
	return Reply{ID: f[0], Version: f[1], Addr: f[2], TLS: encrypted}, err
}

// replyOver returns the reply to a request on a connection with that local address.
func replyOver(local net.Addr, id, version string) Reply {
	r := Reply{ID: id, Version: version, Addr: "unknown"}
	if a, ok := local.(arrival); ok {
		r.TLS = a.encrypted
	}
	if host, _, err := net.SplitHostPort(local.String()); err == nil {
		r.Addr = host
	}
	return r
}
