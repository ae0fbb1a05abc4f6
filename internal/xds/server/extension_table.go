package server

import (
	"slices"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// extensionTable has the names in encoded lists of extensions. The list is most of the 60 KB of a
// node, and the same for all proxies with the same build of Envoy, so it is decoded once for them.
// The zero value is empty.
type extensionTable struct {
	mu    sync.RWMutex
	names map[string][]string // by the encoded list
}

const (
	// nodeExtensions is the number of the field extensions of Node (envoy.config.core.v3).
	nodeExtensions protowire.Number = 9
	// maxExtensionLists bounds how many lists are stored, because a fleet has few builds of Envoy.
	maxExtensionLists = 32
	// maxExtensionBytes bounds the size of a stored list.
	maxExtensionBytes = 256 << 10
)

// decodeNode decodes a node. It returns the node without its extensions, and their names, sorted and
// without duplicates; nil if the node has none. Nodes whose extensions are stored share the list of
// names, which must not be changed. It returns ResourceExhausted for a node that has too many elements
// or is nested too deep, and another error for malformed encoding. It does not keep raw.
func (t *extensionTable) decodeNode(raw []byte) (node *corev3.Node, extensions []string, err error) {
	list, rest := cutExtensions(raw)
	extensions, known := t.find(list)
	if !known {
		rest = raw
	}
	node = new(corev3.Node)
	if err := checkElements(node.ProtoReflect().Descriptor(), rest); err != nil {
		return nil, nil, err
	}
	if err := proto.Unmarshal(rest, node); err != nil {
		return nil, nil, err
	}
	if !known {
		extensions = extensionNames(node.Extensions)
		t.add(list, extensions)
		node.Extensions = nil
	}
	return node, extensions, nil
}

// cutExtensions returns the encoded extensions of an encoded node, and the node without them. Both
// are nil if the node is malformed, has no extensions, or has them in several places.
func cutExtensions(raw []byte) (list, rest []byte) {
	from, to := 0, 0 // raw[from:to] is the list
	for m := newMessage(raw); !m.atEnd(); {
		at := m.at
		number, _, err := m.nextField()
		switch {
		case err != nil:
			return nil, nil
		case number != nodeExtensions:
			continue
		case to == 0:
			from = at
		case to != at:
			return nil, nil
		}
		to = m.at
	}
	if to == 0 {
		return nil, nil
	}
	return raw[from:to], slices.Concat(raw[:from], raw[to:])
}

// extensionNames returns the names of extensions, sorted and without duplicates; nil if there are
// none.
func extensionNames(list []*corev3.Extension) []string {
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// find returns the names in an encoded list. known is false if the list is not stored.
func (t *extensionTable) find(list []byte) (names []string, known bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	names, known = t.names[string(list)]
	return names, known
}

// add stores the names in an encoded list, which it copies. If maxExtensionLists are stored, it evicts
// an arbitrary one, so that unused lists do not fill the table. It does nothing if the list is empty or
// longer than maxExtensionBytes.
func (t *extensionTable) add(list []byte, names []string) {
	if len(list) == 0 || len(list) > maxExtensionBytes {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = map[string][]string{}
	}
	for other := range t.names {
		if len(t.names) < maxExtensionLists {
			break
		}
		delete(t.names, other)
	}
	t.names[string(list)] = names
}
