package replay

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// request is what the server needs of a DeltaDiscoveryRequest.
type request struct {
	// node is the encoded node, nil if the request has none, and namespace that of the proxy.
	node      []byte
	namespace string
	typeURL   string
	// ack is set if the request has a response_nonce.
	ack bool
}

// parseRequest reads a DeltaDiscoveryRequest.
func parseRequest(b []byte) (r request, err error) {
	err = wire.EachField(b, func(f protowire.Number, v []byte, _ uint64) {
		switch f {
		case 1:
			r.node = v
		case 2:
			r.typeURL = string(v)
		case 6:
			r.ack = true
		}
	})
	if err == nil && r.node != nil {
		r.namespace, err = namespaceOf(r.node)
	}
	return r, err
}

// withNode returns a request with another node. Of a field that occurs twice, and is a message,
// protobuf merges both, so the old one is left out.
func withNode(b, node []byte) ([]byte, error) {
	out := wire.AppendBytes(make([]byte, 0, len(b)+len(node)), 1, node)
	for len(b) > 0 {
		f, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return nil, wire.ErrMalformed
		}
		if f != 1 {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return out, nil
}

// namespaceOf returns the namespace in the id of a node, "sidecar~IP~POD.NAMESPACE~DOMAIN"; "" if
// the id has another form.
func namespaceOf(node []byte) (namespace string, err error) {
	err = wire.EachField(node, func(f protowire.Number, v []byte, _ uint64) {
		if parts := strings.Split(string(v), "~"); f == 1 && len(parts) == 4 {
			_, namespace, _ = strings.Cut(parts[2], ".")
		}
	})
	return namespace, err
}

// parseType returns the type URL of a DeltaDiscoveryResponse.
func parseType(b []byte) (typeURL string, err error) {
	err = wire.EachField(b, func(f protowire.Number, v []byte, _ uint64) {
		if f == 4 {
			typeURL = string(v)
		}
	})
	return typeURL, err
}
