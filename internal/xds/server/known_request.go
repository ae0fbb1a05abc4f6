package server

import (
	"google.golang.org/grpc/mem"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// knownRequest is a delta request whose names and versions may be known, as they usually are when a
// proxy reconnects. The fields share the memory of the message.
type knownRequest struct {
	node, typeURL, nonce []byte
	names                push.NameSum // of resource_names_subscribe
	// held is the number of entries in initial_resource_versions, and sum the sum of their
	// resource.Hash.
	held int
	sum  uint64
}

// minKnownRequest is the size in bytes from which it saves memory to look up whether the names and
// versions of a request are known. The node of a real proxy is larger, an acknowledgement smaller.
const minKnownRequest = 4 << 10

// decodeKnown decodes a delta request of a proxy without a copy of its names and versions, and
// reports whether it could. It can if another client subscribes to the same names, and some clients
// are offered the resources in these versions. If not, it changes nothing. It never decodes a
// request that is shorter than minKnownRequest, malformed, for a Handler, or has other fields than
// readKnown reads.
func (r *request) decodeKnown(data mem.BufferSlice) bool {
	if r.mode != stream.Delta || r.session == nil || data.Len() < minKnownRequest {
		return false
	}
	buffer := buffers.Get(data.Len())
	defer buffers.Put(buffer)
	data.CopyTo(*buffer)
	known, ok := readKnown(*buffer, r.session.s.pusher.NewNameSum())
	return ok && r.useKnown(known)
}

// useKnown sets the fields of r from k. It returns false, and changes nothing, if the names or
// versions are not known or the node is malformed. So it does if the client is not a proxy, because
// a Handler needs the whole message.
func (r *request) useKnown(k knownRequest) bool {
	pusher := r.session.s.pusher
	if k.node == nil && r.session.nodeID == "" { // the stream is a Handler's, or has no node yet
		return false
	}
	var in incoming
	if k.names.Len() > 0 {
		if in.Subscribe, in.Interned = pusher.KnownNames(k.names); in.Interned == nil {
			return false
		}
	}
	in.TypeURL, in.Nonce = string(k.typeURL), string(k.nonce)
	if k.held > 0 {
		sets := pusher.KnownSets(in.TypeURL, k.held, k.sum)
		if sets == nil {
			return false
		}
		in.Held = stream.HoldingsOfSets(sets)
	}
	if k.node != nil {
		decoded := request{session: r.session}
		if decoded.readNode(k.node) != nil || r.session.s.handlerFor(decoded.node) != nil {
			return false
		}
		in.node, in.extensions = decoded.node, decoded.extensions
	}
	r.incoming = in
	return true
}

// readKnown reads a DeltaDiscoveryRequest. ok is false if it is malformed, or has a field that is
// neither the node, the type URL, a name to subscribe to, a version that the client holds, nor the
// nonce.
func readKnown(raw []byte, names push.NameSum) (k knownRequest, ok bool) {
	k.names = names
	for m := newMessage(raw); !m.atEnd(); {
		number, value, err := m.nextField()
		if err != nil {
			return k, false
		}
		switch number {
		case asksDeltaNode:
			k.node = value
		case asksDeltaTypeURL:
			k.typeURL = value
		case asksDeltaNonce:
			k.nonce = value
		case asksDeltaSubscribe:
			k.names.Add(value)
		case asksDeltaHeld:
			if !k.addHeld(value) {
				return k, false
			}
		default:
			return k, false
		}
	}
	return k, true
}

// addHeld adds an entry of initial_resource_versions. It returns false, and adds nothing, if the
// entry is malformed.
func (k *knownRequest) addHeld(entry []byte) bool {
	name, version, err := newMessage(entry).readEntry()
	if err != nil {
		return false
	}
	k.held++
	k.sum += resource.HashBytes(entry[name.from:name.to], entry[version.from:version.to])
	return true
}
